/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs and outputs of a shared engine: prompts of all kinds and their errors, limits of requests,
 * memory of images in flight, tokens as text. */
#include <pthread.h>

#include "engine/concurrent_requests.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct question q;
static struct concurrent_request members[4];

static ey_engine *open_plain(void)
{
    return engine_open("tiny-ragged-fp8", "cpu", 2, 512);
}

static void expect_error(bool ok, const ey_err *e, ey_code code, const char *says, const char *what)
{
    if (ok) fail_msg("%s: was accepted", what);
    if (e->code != code || !strstr(e->text, says))
        fail_msg("%s: code %d, %s", what, (int)e->code, e->text);
}

/* ---- options ---- */

static void options_have_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        ey_engine_options options;
        const char *says;
    } rows[] = {
        {"max_num_seqs -1", {.max_num_seqs = -1}, "max_num_seqs is -1"},
        {"max_num_seqs 257", {.max_num_seqs = 257}, "max_num_seqs is 257"},
        {"max_num_queued -1", {.max_num_queued = -1}, "max_num_queued is -1"},
        {"max_num_queued 65537", {.max_num_queued = 65537}, "max_num_queued is 65537"},
        {"max_images -2", {.max_images = -2}, "max_images is -2"},
        {"max_images 65", {.max_images = 65}, "max_images is 65"},
        {"max_num_batched_tokens 63",
         {.max_num_batched_tokens = 63},
         "max_num_batched_tokens is 63"},
        {"max_num_batched_tokens 4097",
         {.max_num_batched_tokens = 4097},
         "max_num_batched_tokens is 4097"},
        {"max_num_batched_tokens -1",
         {.max_num_batched_tokens = -1},
         "max_num_batched_tokens is -1"},
        {"kv_tokens -1", {.kv_tokens = -1}, "kv_tokens is -1"},
        {"kv_tokens below the context", {.kv_tokens = 511, .max_model_len = 512}, "511"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ey_engine *engine;
        ey_engine_options options = rows[i].options;
        options.size = sizeof(options);
        ey_err e = {0};
        ey_engine *made = open_plain(); /* makes the checkpoint */
        options.model = ey_engine_describe(made).directory;
        options.device = "cpu";
        expect_error(ey_engine_open(&engine, &options, &e), &e, EY_BAD_REQUEST, rows[i].says,
                     rows[i].what);
        assert_null(engine);
        ey_engine_close(&made);
    }
    ey_engine_options options = ey_engine_defaults();
    options.device = "cpu";
    options.kv_tokens = 200; /* the context is limited by the pool */
    ey_engine *engine = engine_open_with("tiny-ragged-fp8", options);
    assert_int_equal(ey_engine_describe(engine).max_model_len, 200);
    assert_int_equal(ey_engine_describe(engine).kv_tokens, 256); /* rounded up to whole blocks */
    assert_int_equal(ey_engine_describe(engine).max_num_seqs, 1);
    assert_int_equal(ey_engine_stats(engine).kv_blocks, 4);
    ey_engine_close(&engine);
}

/* The answer does not depend on the rows of a step, from the fewest to more than the prompt has. */
static void rows_of_a_step(void **state)
{
    (void)state;
    static const int rows[] = {64, 100, 4096};
    struct outcome first = {0};
    question_simple(&q, 2,
                    "Describe the two images in a few words, then say which of the coloured "
                    "shapes is the largest, and where it stands.",
                    8);
    for (size_t i = 0; i < COUNT(rows); i++) {
        ey_engine_options options = ey_engine_defaults();
        options.device = "cpu";
        options.threads = 2;
        options.max_model_len = 512;
        options.max_num_batched_tokens = rows[i];
        ey_engine *engine = engine_open_with("tiny-gqa4-fp8", options);
        struct outcome o = outcome_of(engine, &q);
        assert_true(o.prompt_tokens > 150);
        if (i) {
            assert_same_outcome(&first, &o, "rows of a step");
            outcome_free(&o);
        } else
            first = o;
        ey_engine_close(&engine);
    }
    outcome_free(&first);
}

/* ---- raw prompts ---- */

static ey_request written(const char *text, bool parse)
{
    ey_request r = ey_request_defaults();
    r.text = text;
    r.n_text = strlen(text);
    r.parse_special_tokens = parse;
    r.max_tokens = 5;
    r.ignore_eos = true;
    return r;
}

static void prompts_of_text_and_ids(void **state)
{
    (void)state;
    ey_engine *engine = open_plain();
    static const char chat[] =
        "<|im_start|>user\nWhat is a fox?<|im_end|>\n<|im_start|>assistant\n";
    question_simple(&q, 0, "What is a fox?", 5);
    ey_answer of_messages = ask(engine, &q);
    for (int kind = 0; kind < 2; kind++) {
        ey_request r = written(chat, true);
        ey_prompt *prompt;
        ey_generation *gen;
        ey_answer answer;
        ey_err e;
        int *ids;
        size_t n;
        assert_true(ey_tokenize(engine, chat, strlen(chat), true, &ids, &n, &e));
        if (kind) {
            r.text = NULL;
            r.ids = ids;
            r.n_ids = n;
        }
        assert_true(ey_prompt_prepare(engine, &r, &prompt, &e));
        ey_prompt_info info = ey_prompt_describe(prompt);
        assert_int_equal(info.n_ids, n);
        assert_memory_equal(info.ids, ids, n * sizeof(int));
        assert_true(info.n_images == 0 && info.image_tokens == 0);
        assert_int_equal(info.kv_bytes,
                         (n + KV_BLOCK - 1) / KV_BLOCK * engine->buffers.kv_block_bytes);
        free(ids);
        assert_true(ey_generation_start(engine, prompt, &r, &gen, &e));
        ey_prompt_free(&prompt);
        assert_null(prompt);
        ey_prompt_free(&prompt);
        assert_true(ey_generation_collect(&gen, &answer, &e));
        assert_same_answer(&of_messages, &answer, kind ? "ids" : "text");
        ey_answer_free(&answer);
    }
    ey_request plain = written("<|im_start|>", false); /* letters and punctuation only */
    ey_prompt *prompt;
    ey_err e;
    assert_true(ey_prompt_prepare(engine, &plain, &prompt, &e));
    assert_true(ey_prompt_describe(prompt).n_ids > 1);
    ey_prompt_free(&prompt);
    ey_answer_free(&of_messages);
    assert_at_rest(engine);
    ey_engine_close(&engine);
}

/* Prompts from messages and images, and their description. */
static void prompts_describe_themselves(void **state)
{
    (void)state;
    ey_engine *engine = open_plain();
    ey_prompt *prompt;
    ey_err e;
    question_simple(&q, 2, "What is this?", 5);
    assert_true(ey_prompt_prepare(engine, &q.request, &prompt, &e));
    ey_prompt_info info = ey_prompt_describe(prompt);
    assert_int_equal(info.n_images, 2);
    assert_true(info.images[0].width == 97 && info.images[0].height == 130 &&
                info.images[1].width == 200);
    assert_int_equal(info.image_tokens, info.images[0].tokens + info.images[1].tokens);
    assert_true((int)info.n_ids > info.image_tokens);
    assert_true(info.kv_bytes > 0 && !info.images[0].cached);
    ey_prompt_free(&prompt);
    assert_int_equal(ey_engine_stats(engine).prompt_tokens, 0); /* no step has run */
    ey_engine_close(&engine);
}

static void assert_same_ids(const ey_prompt *a, const ey_prompt *b)
{
    const ey_prompt_info first = ey_prompt_describe(a), second = ey_prompt_describe(b);
    assert_int_equal(first.n_ids, second.n_ids);
    assert_int_equal(first.n_images, second.n_images);
    assert_memory_equal(first.ids, second.ids, first.n_ids * sizeof(*first.ids));
}

/* A raw prompt with images equals the prompt of the messages. */
static void prompts_of_parts(void **state)
{
    (void)state;
    ey_engine *engine = open_plain();
    ey_prompt *of_messages, *of_parts;
    ey_err e;
    question_simple(&q, 2, "What is this?", 5);
    assert_true(ey_prompt_prepare(engine, &q.request, &of_messages, &e));
    ey_part parts[5] = {ey_text_part("<|im_start|>user\n"), q.parts[0][0], q.parts[0][1],
                        q.parts[0][2],
                        ey_text_part("What is this?<|im_end|>\n<|im_start|>assistant\n")};
    ey_request request = ey_request_defaults();
    request.parts = parts;
    request.n_parts = 5;
    request.parse_special_tokens = true;
    if (!ey_prompt_prepare(engine, &request, &of_parts, &e)) fail_msg("%s", e.text);
    assert_same_ids(of_messages, of_parts);
    ey_prompt_free(&of_messages);
    ey_prompt_free(&of_parts);
    request.messages = q.messages; /* messages override parts, whose images are not counted */
    request.n_messages = q.request.n_messages;
    ey_prompt *of_both;
    if (!ey_prompt_prepare(engine, &request, &of_both, &e)) fail_msg("%s", e.text);
    assert_int_equal(ey_prompt_describe(of_both).n_images, 2);
    ey_prompt_free(&of_both);
    request.messages = NULL;
    request.n_messages = 0;
    parts[4] = ey_text_part("<|image_pad|>");
    assert_false(ey_prompt_prepare(engine, &request, &of_parts, &e));
    assert_int_equal(e.code, EY_BAD_REQUEST);
    request.n_parts = 0;
    assert_false(ey_prompt_prepare(engine, &request, &of_parts, &e));
    assert_int_equal(e.code, EY_BAD_REQUEST);
    ey_engine_close(&engine);
}

static void bad_prompts(void **state)
{
    (void)state;
    ey_engine *engine = open_plain();
    const int vocabulary = engine->devices.model.text.vocab_size;
    static char long_text[600];
    static int long_ids[512], many_ids[EY_MAX_CONTEXT + 1];
    for (size_t i = 0; i + 1 < sizeof(long_text); i++)
        long_text[i] = (char)(1 + i % 2);
    for (size_t i = 0; i < COUNT(long_ids); i++)
        long_ids[i] = 5;
    const int pad = tokenizer_added_id(engine->devices.tok, "<|image_pad|>"),
              video = tokenizer_added_id(engine->devices.tok, "<|video_pad|>");
    assert_true(pad > 0 && video > 0);
    const struct {
        const char *what, *text;
        bool parse;
        const int *ids;
        size_t n_ids;
        ey_code code;
        const char *says;
    } rows[] = {
        {"no text", "", false, NULL, 0, EY_BAD_REQUEST, "the prompt is empty"},
        {"no ids", NULL, false, long_ids, 0, EY_BAD_REQUEST, "the prompt is empty"},
        {"nothing at all", NULL, false, NULL, 0, EY_BAD_REQUEST, "no messages"},
        {"id -1", NULL, false, (const int[]){5, -1}, 2, EY_BAD_REQUEST, "-1"},
        {"id beyond the vocabulary", NULL, false, &vocabulary, 1, EY_BAD_REQUEST, "vocabulary"},
        {"id 2^31-1", NULL, false, (const int[]){2147483647}, 1, EY_BAD_REQUEST, "2147483647"},
        {"an image's pad", "see <|image_pad|>", true, NULL, 0, EY_BAD_REQUEST, "<|image_pad|>"},
        {"an image's start", "<|vision_start|>", true, NULL, 0, EY_BAD_REQUEST, "<|vision_start|>"},
        {"an image's end", "<|vision_end|>", true, NULL, 0, EY_BAD_REQUEST, "<|vision_end|>"},
        {"a video's pad", "<|video_pad|>", true, NULL, 0, EY_BAD_REQUEST, "<|video_pad|>"},
        {"id of an image's pad", NULL, false, &pad, 1, EY_BAD_REQUEST, "<|image_pad|>"},
        {"id of a video's pad", NULL, false, &video, 1, EY_BAD_REQUEST, "<|video_pad|>"},
        {"text beyond the context", long_text, false, NULL, 0, EY_TOO_LONG, "the context of 512"},
        {"as many ids as the context", NULL, false, long_ids, COUNT(long_ids), EY_TOO_LONG,
         "512 tokens"},
        {"more ids than any context", NULL, false, many_ids, COUNT(many_ids), EY_TOO_LONG,
         "1048577"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ey_request r = ey_request_defaults();
        ey_prompt *prompt = (ey_prompt *)&r; /* must become NULL */
        ey_err e = {0};
        r.text = rows[i].text;
        r.n_text = rows[i].text ? strlen(rows[i].text) : 0;
        r.parse_special_tokens = rows[i].parse;
        r.ids = rows[i].ids;
        r.n_ids = rows[i].n_ids;
        expect_error(ey_prompt_prepare(engine, &r, &prompt, &e), &e, rows[i].code, rows[i].says,
                     rows[i].what);
        assert_null(prompt);
    }
    ey_request r = ey_request_defaults(); /* one token less fits, with room for one token */
    ey_answer answer;
    ey_err e;
    r.ids = long_ids;
    r.n_ids = COUNT(long_ids) - 1;
    r.ignore_eos = true;
    assert_true(ey_ask(engine, &r, &answer, &e));
    assert_int_equal(answer.completion_tokens, 1);
    ey_answer_free(&answer);
    assert_at_rest(engine);
    ey_engine_close(&engine);
}

/* ---- limits and log-probabilities of answers ---- */

static void limits_of_answers(void **state)
{
    (void)state;
    ey_engine *engine = open_plain();
    const int vocabulary = engine->devices.model.text.vocab_size;
    static ey_logit_bias biases[EY_MAX_LOGIT_BIAS + 1];
    static int stops[EY_MAX_STOP_IDS + 1];
    static const char *const no_stop[] = {NULL};
    const ey_logit_bias outside = {vocabulary, 1}, negative = {-1, 1}, much = {5, 100.5f},
                        little = {5, -101}, no_number = {5, 0.0f / 0.0f},
                        infinite = {5, 1.0f / 0.0f};
    const struct {
        const char *what;
        ey_request r;
        const char *says;
    } rows[] = {
        {"1,025 biases",
         {.logit_bias = biases, .n_logit_bias = COUNT(biases)},
         "1025 logit biases"},
        {"bias beyond the vocabulary", {.logit_bias = &outside, .n_logit_bias = 1}, "vocabulary"},
        {"bias of -1", {.logit_bias = &negative, .n_logit_bias = 1}, "-1"},
        {"bias 100.5", {.logit_bias = &much, .n_logit_bias = 1}, "100.5"},
        {"bias -101", {.logit_bias = &little, .n_logit_bias = 1}, "-101"},
        {"bias NaN", {.logit_bias = &no_number, .n_logit_bias = 1}, "nan"},
        {"bias infinite", {.logit_bias = &infinite, .n_logit_bias = 1}, "inf"},
        {"65 stop tokens", {.stop_ids = stops, .n_stop_ids = COUNT(stops)}, "65 stop tokens"},
        {"a stop text that is none", {.stop = no_stop, .n_stop = 1}, "stop text 1"},
        {"21 alternatives", {.top_logprobs = 21}, "21"},
        {"-3 tokens", {.max_tokens = -3}, "-3"},
        {"temperature -1", {.sampling = {.temperature = -1}}, "temperature is -1"},
    };
    question_simple(&q, 1, "Hello", 3);
    ey_prompt *prompt;
    ey_err e;
    assert_true(ey_prompt_prepare(engine, &q.request, &prompt, &e));
    for (size_t i = 0; i < COUNT(rows); i++) {
        ey_request r = rows[i].r;
        r.size = sizeof(r);
        ey_generation *gen = (ey_generation *)&r; /* must become NULL */
        if (!r.top_logprobs) r.top_logprobs = -1;
        r.sampling.top_p = 1;
        r.sampling.repetition_penalty = 1;
        e = (ey_err){0};
        expect_error(ey_generation_start(engine, prompt, &r, &gen, &e), &e, EY_BAD_REQUEST,
                     rows[i].says, rows[i].what);
        assert_null(gen);
    }
    q.request.logit_bias = biases;
    q.request.n_logit_bias = EY_MAX_LOGIT_BIAS; /* the maximum, all without effect */
    q.request.stop_ids = stops;
    q.request.n_stop_ids = EY_MAX_STOP_IDS;
    for (size_t i = 0; i < COUNT(stops); i++)
        stops[i] = vocabulary + (int)i;
    ey_generation *gen;
    ey_answer answer;
    assert_true(ey_generation_start(engine, prompt, &q.request, &gen, &e));
    ey_prompt_free(&prompt);
    assert_true(ey_generation_collect(&gen, &answer, &e));
    assert_int_equal(answer.completion_tokens, 3);
    ey_answer_free(&answer);
    assert_at_rest(engine);
    ey_engine_close(&engine);
}

static void biases_work(void **state)
{
    (void)state;
    ey_engine *engine = open_plain();
    question_simple(&q, 0, "Hello", 8);
    q.request.top_logprobs = 0;
    ey_answer plain = ask(engine, &q);
    const ey_logit_bias only = {321, 100};
    q.request.logit_bias = &only;
    q.request.n_logit_bias = 1;
    ey_answer one = ask(engine, &q);
    for (int i = 0; i < 8; i++)
        assert_int_equal(one.tokens[i], 321);
    assert_true(one.logprobs[0].chosen.logprob < -1); /* of the raw logits, before the bias */
    const ey_logit_bias never = {plain.tokens[0], -100};
    q.request.logit_bias = &never;
    ey_answer other = ask(engine, &q);
    for (int i = 0; i < 8; i++)
        assert_int_not_equal(other.tokens[i], plain.tokens[0]);
    q.request.sampling.temperature = 1;
    q.request.logit_bias = &only;
    ey_answer drawn = ask(engine, &q);
    for (int i = 0; i < 8; i++)
        assert_int_equal(drawn.tokens[i], 321);
    ey_answer_free(&plain);
    ey_answer_free(&one);
    ey_answer_free(&other);
    ey_answer_free(&drawn);
    ey_engine_close(&engine);
}

/* Everything that a request points to may be freed once the answer has started. */
static void requests_are_copied(void **state)
{
    (void)state;
    static struct request_kinds sorts;
    ey_engine *engine = engine_open("tiny-ragged-fp8", "cpu", 2, 640);
    request_kinds_open(&sorts, engine);
    for (int i = 3; i <= 5; i++) { /* with a stop text, a stop token, biases */
        struct request_kinds gone = sorts;
        ey_request r = sorts.question[i].request;
        if (r.stop) {
            r.stop = gone.stops;
            gone.stops[0] = gone.stop;
        }
        if (r.stop_ids) r.stop_ids = gone.stop_ids;
        if (r.logit_bias) r.logit_bias = gone.bias;
        members[0].request = r;
        pthread_mutex_lock(&engine->devices.lock);
        concurrent_request_start(&members[0], engine);
        memset(&gone, 0x55, sizeof(gone));
        memset(&members[0].request, 0x55, sizeof(r));
        pthread_mutex_unlock(&engine->devices.lock);
        concurrent_request_collect(&members[0]);
        assert_same_answer(&sorts.expected[i], &members[0].answer, "copied");
        concurrent_request_free(&members[0]);
    }
    request_kinds_close(&sorts);
    ey_engine_close(&engine);
}

/* Log-probabilities in events equal those of the answer. */
static void logprobs_as_they_come(void **state)
{
    (void)state;
    enum { TOP = 3, N = 20 };
    ey_engine *engine = open_plain();
    ey_logprob top[N][TOP], beyond[TOP];
    ey_token_logprobs seen[N];
    ey_prompt *prompt;
    ey_generation *gen;
    ey_answer answer;
    ey_event event;
    ey_err e;
    int n = 0;
    question_simple(&q, 0, "Hello", N);
    q.request.top_logprobs = TOP;
    assert_true(ey_prompt_prepare(engine, &q.request, &prompt, &e));
    assert_true(ey_generation_start(engine, prompt, &q.request, &gen, &e));
    ey_prompt_free(&prompt);
    do {
        ey_generation_next(gen, 1000, &event);
        for (; n < event.n_tokens; n++)
            seen[n] = ey_generation_logprobs(gen, n, top[n]);
    } while (event.type != EY_EVENT_DONE);
    assert_int_equal(n, N);
    assert_int_equal(ey_generation_logprobs(gen, -1, beyond).n_top, 0);
    assert_true(ey_generation_collect(&gen, &answer, &e));
    for (int i = 0; i < N; i++) {
        const ey_token_logprobs *l = &answer.logprobs[i];
        assert_int_equal(seen[i].chosen.id, l->chosen.id);
        assert_true(seen[i].chosen.logprob == l->chosen.logprob && seen[i].n_top == TOP &&
                    l->n_top == TOP);
        for (int k = 0; k < TOP; k++)
            assert_true(top[i][k].id == l->top[k].id && top[i][k].logprob == l->top[k].logprob);
    }
    ey_answer_free(&answer);
    ey_engine_close(&engine);
}

/* A token may be part of a character; the tokens' bytes together are the text. */
static void logprobs_have_the_bytes_of_tokens(void **state)
{
    (void)state;
    static const char *const choice[] = {"Gr\xc3\xbc\xc3\x9f"
                                         "e \xf0\x9f\x98\x80 \xe4\xbd\xa0"};
    ey_engine *engine = open_plain();
    ey_grammar *grammar;
    ey_answer answer;
    ey_err e;
    struct buf joined = buf_with_max(1 << 16);
    assert_true(ey_grammar_of_choices(&grammar, choice, 1, &e));
    question_simple(&q, 0, "Hello", 60);
    q.request.grammar = grammar;
    q.request.top_logprobs = 2;
    if (!ey_ask(engine, &q.request, &answer, &e)) fail_msg("%s", e.text);
    ey_grammar_free(&grammar);
    bool parts = false;
    for (size_t i = 0; i < answer.n_logprobs; i++) {
        const ey_token_logprobs *at = &answer.logprobs[i];
        parts = parts || strstr(at->chosen.token, "\xef\xbf\xbd");
        buf_add(&joined, at->chosen.bytes, at->chosen.n_bytes);
        assert_int_equal(at->n_top, 2);
        assert_true(at->top[0].n_bytes > 0 && at->top[1].bytes);
    }
    assert_true(parts);
    assert_string_equal(answer.text, choice[0]);
    assert_int_equal(joined.size, answer.n_text);
    assert_memory_equal(joined.data, answer.text, answer.n_text);
    buf_free(&joined);
    ey_answer_free(&answer);
    ey_engine_close(&engine);
}

/* Neither end tokens nor the request's stops end an answer before min_tokens. */
static void min_tokens(void **state)
{
    (void)state;
    enum { MIN = 12, MAX = 40 };
    ey_engine *engine = open_plain();
    ey_answer free_answer, answer;
    ey_err e;
    question_simple(&q, 0, "Hello", MAX);
    q.request.ignore_eos = true;
    assert_true(ey_ask(engine, &q.request, &free_answer, &e));
    assert_int_equal(free_answer.n_tokens, MAX);
    /* stops: the third token, and a text that occurs early */
    const int stop_id = free_answer.tokens[2];
    const char early[] = {free_answer.text[0], 0}, *const stop[] = {early};
    q.request.stop_ids = &stop_id;
    q.request.n_stop_ids = 1;
    assert_true(ey_ask(engine, &q.request, &answer, &e));
    assert_true(answer.n_tokens <= 2 && answer.finish_reason == EY_FINISH_STOP);
    ey_answer_free(&answer);
    q.request.stop = stop;
    q.request.n_stop = 1;
    q.request.min_tokens = MIN;
    assert_true(ey_ask(engine, &q.request, &answer, &e));
    assert_true(answer.completion_tokens >= MIN && answer.n_text > 0);
    for (int i = 0; i < MIN && i < answer.n_tokens; i++)
        assert_int_not_equal(answer.tokens[i], stop_id);
    for (int i = 0; i < 2; i++) /* equal up to the first possible stop */
        assert_int_equal(answer.tokens[i], free_answer.tokens[i]);
    ey_answer_free(&answer);
    ey_answer_free(&free_answer);
    q.request.min_tokens = MAX + 1;
    assert_false(ey_ask(engine, &q.request, &answer, &e));
    assert_non_null(
        strstr(e.text, "min_tokens is 41; it must be from 0 to max_tokens, which is 40"));
    ey_engine_close(&engine);
}

/* With min_tokens, a grammar that may end early continues; one that must end ends. */
static void min_tokens_within_a_grammar(void **state)
{
    (void)state;
    static const char *const choice[] = {"ab"};
    ey_engine *engine = open_plain();
    ey_grammar *grammar;
    ey_answer answer;
    ey_err e;
    question_simple(&q, 0, "Hello", 30);
    q.request.min_tokens = 20;
    assert_true(ey_grammar_of_regex(&grammar, "[ab]*", 5, &e));
    q.request.grammar = grammar;
    assert_true(ey_ask(engine, &q.request, &answer, &e));
    assert_true(answer.completion_tokens >= 20 && strspn(answer.text, "ab") == answer.n_text);
    ey_answer_free(&answer);
    ey_grammar_free(&grammar);
    assert_true(ey_grammar_of_choices(&grammar, choice, 1, &e));
    q.request.grammar = grammar;
    assert_true(ey_ask(engine, &q.request, &answer, &e));
    assert_string_equal(answer.text, "ab");
    assert_int_equal(answer.finish_reason, EY_FINISH_STOP);
    ey_answer_free(&answer);
    ey_grammar_free(&grammar);
    ey_engine_close(&engine);
}

/* ---- memory of images in flight ---- */

static ey_engine *open_with_budget(ey_budget *budget)
{
    ey_engine_options options = ey_engine_defaults();
    options.device = "cpu";
    options.threads = 2;
    options.max_model_len = 512;
    options.budget = budget;
    return engine_open_with("tiny-ragged-fp8", options);
}

static void images_come_out_of_the_budget(void **state)
{
    (void)state;
    ey_budget *budget = ey_budget_create(4 << 20);
    ey_engine *engine = open_with_budget(budget);
    ey_prompt *prompt;
    ey_generation *gen;
    ey_answer answer;
    ey_err e = {0};
    question_simple(&q, 2, "What is this?", 4);
    assert_true(ey_prompt_prepare(engine, &q.request, &prompt, &e));
    ey_prompt_info info = ey_prompt_describe(prompt);
    /* pixels of the resized images, which the generation holds until the answer is complete */
    uint64_t kept = 0;
    for (size_t i = 0; i < info.n_images; i++)
        kept += (uint64_t)info.images[i].used_width * (uint64_t)info.images[i].used_height * 3;
    assert_int_equal(ey_budget_used(budget), kept);
    assert_true(ey_generation_start(engine, prompt, &q.request, &gen, &e));
    ey_prompt_free(&prompt);
    assert_true(ey_generation_collect(&gen, &answer, &e));
    assert_int_equal(answer.completion_tokens, 4);
    ey_answer_free(&answer);
    assert_int_equal(ey_budget_used(budget), 0);
    /* all ways to end release the memory */
    static const char broken[] = "GIF89a, not";
    for (int way = 0; way < 6; way++) {
        question_simple(&q, 1, "What is this?", 4);
        if (way == 0) question_part(&q, test_image(1000, 1000, 1)); /* 8 MB decoded */
        if (way == 1) question_part(&q, ey_image_part(broken, sizeof(broken)));
        if (way == 2)
            question_part(&q, ey_image_part(test_image(200, 200, 1).bytes,
                                            test_image(200, 200, 1).n_bytes / 2));
        if (way == 3) question_part(&q, test_image(1, 300, 1));
        if (way == 4) q.messages[0].role = "robot";
        static char long_text[4000];
        memset(long_text, 1, sizeof(long_text));
        if (way == 5)
            question_part(
                &q,
                (ey_part){.type = EY_PART_TEXT, .bytes = long_text, .n_bytes = sizeof(long_text)});
        if (ey_prompt_prepare(engine, &q.request, &prompt, &e))
            fail_msg("way %d: was accepted", way);
        if (way == 0)
            expect_error(false, &e, EY_BAD_IMAGE, "image 2", "an image beyond the budget");
        assert_int_equal(e.item_kind, way < 4 ? EY_ITEM_IMAGE : EY_ITEM_NONE);
        if (way < 4) {
            assert_int_equal(e.item, 1);
            assert_int_equal(e.detail, strlen("image 2: "));
            assert_memory_equal(e.text, "image 2: ", strlen("image 2: "));
        }
        assert_int_equal(ey_budget_used(budget), 0);
    }
    assert_at_rest(engine);
    ey_engine_close(&engine);
    ey_budget_free(&budget);
}

/* A small image that is enlarged counts with its enlarged size. */
static void enlarged_images_count(void **state)
{
    (void)state;
    ey_budget *budget = ey_budget_create(1 << 20);
    ey_engine_options options = ey_engine_defaults();
    options.device = "cpu";
    options.threads = 1;
    options.max_model_len = 2048;
    options.budget = budget;
    /* enlarges images to at least 256 x 256 */
    ey_engine *engine = engine_open_with("tiny-gqa4-bf16", options);
    ey_prompt *prompt[8];
    ey_err e = {0};
    int n = 0;
    question_start(&q, 1);
    question_turn(&q, "user");
    question_part(&q, test_image(8, 8, 1));
    for (; n < 3; n++) {
        assert_true(ey_prompt_prepare(engine, &q.request, &prompt[n], &e));
        assert_int_equal(ey_budget_used(budget), (n + 1) * 256 * 256 * 3);
    }
    while (n)
        ey_prompt_free(&prompt[--n]);
    assert_int_equal(ey_budget_used(budget), 0);
    ey_engine_close(&engine);
    ey_budget_free(&budget);
}

static void *give_back(void *user)
{
    ey_budget_release(user, 1 << 20);
    return NULL;
}

/* An image waits for memory that other requests hold. */
static void images_wait_for_the_budget(void **state)
{
    (void)state;
    ey_budget *budget = ey_budget_create(1 << 20);
    ey_engine *engine = open_with_budget(budget);
    ey_prompt *prompt;
    ey_err e;
    pthread_t thread;
    assert_true(ey_budget_acquire(budget, 1 << 20, 0));
    question_simple(&q, 1, "What is this?", 4);
    assert_int_equal(pthread_create(&thread, NULL, give_back, budget), 0);
    assert_true(ey_prompt_prepare(engine, &q.request, &prompt, &e));
    pthread_join(thread, NULL);
    ey_prompt_free(&prompt);
    assert_int_equal(ey_budget_used(budget), 0);
    ey_engine_close(&engine);
    ey_budget_free(&budget);
}

/* ---- tokens as text ---- */

static void text_and_back(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "a",
                                        "Hello, world!\n",
                                        "caf\xc3\xa9 \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\xa6\x8a",
                                        "  two  spaces ",
                                        "<|im_start|>user"};
    ey_engine *engine = open_plain();
    for (size_t i = 0; i < COUNT(texts); i++)
        for (int parse = 0; parse < 2; parse++) {
            int *ids;
            size_t n_ids, n;
            char *text;
            ey_err e;
            assert_true(ey_tokenize(engine, texts[i], strlen(texts[i]), parse, &ids, &n_ids, &e));
            assert_true(ey_detokenize(engine, ids, n_ids, &text, &n, &e));
            if (!parse || !strchr(texts[i], '|')) assert_string_equal(text, texts[i]);
            assert_int_equal(n, strlen(text));
            free(ids);
            free(text);
        }
    ey_engine_close(&engine);
}

static void bad_tokens(void **state)
{
    (void)state;
    ey_engine *engine = open_plain();
    const int outside[] = {5, engine->devices.model.text.vocab_size}, negative[] = {-1};
    char *text = (char *)&outside;
    size_t n = 9;
    int *ids;
    ey_err e = {0};
    expect_error(ey_detokenize(engine, outside, 2, &text, &n, &e), &e, EY_BAD_REQUEST, "vocabulary",
                 "id beyond the vocabulary");
    assert_true(!text && n == 0);
    expect_error(ey_detokenize(engine, negative, 1, &text, &n, &e), &e, EY_BAD_REQUEST, "-1",
                 "id -1");
    /* a character's bytes one at a time, then without the last: an incomplete character becomes
     * U+FFFD */
    assert_true(ey_tokenize(engine, "\xf0\x9f\xa6\x8a", 4, false, &ids, &n, &e));
    if (n > 1) {
        size_t length;
        assert_true(ey_detokenize(engine, ids, n - 1, &text, &length, &e));
        assert_string_equal(text, "\xef\xbf\xbd");
        free(text);
    }
    free(ids);
    ey_engine_close(&engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_have_ranges),
        cmocka_unit_test(rows_of_a_step),
        cmocka_unit_test(prompts_of_text_and_ids),
        cmocka_unit_test(prompts_describe_themselves),
        cmocka_unit_test(prompts_of_parts),
        cmocka_unit_test(bad_prompts),
        cmocka_unit_test(limits_of_answers),
        cmocka_unit_test(biases_work),
        cmocka_unit_test(requests_are_copied),
        cmocka_unit_test(logprobs_as_they_come),
        cmocka_unit_test(logprobs_have_the_bytes_of_tokens),
        cmocka_unit_test(min_tokens),
        cmocka_unit_test(min_tokens_within_a_grammar),
        cmocka_unit_test(images_come_out_of_the_budget),
        cmocka_unit_test(enlarged_images_count),
        cmocka_unit_test(images_wait_for_the_budget),
        cmocka_unit_test(text_and_back),
        cmocka_unit_test(bad_tokens),
    };
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
