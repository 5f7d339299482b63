/* SPDX-License-Identifier: Apache-2.0 */
/* Concurrent requests on one engine: each answer is bit-identical to the one given alone, whatever
 * runs in the same steps, comes from caches or is preempted; and nothing is leaked. */
#include "engine/concurrent_requests.h"
#include "engine/op_hooks.h"
#include "engine/request/prompt.h"

static const char *const devices[] = {ENGINE_DEVICES};
enum { N_DEVICES = sizeof(devices) / sizeof(devices[0]) };
#define EACH_DEVICE(d) for (int d = 0; d < N_DEVICES; d++)
#define SMALLEST_SLICES \
    1e-9 /* seconds; a turn is then one tile of the vision encoder and 16 rows of a prompt */

static struct concurrent_request members[N_REQUEST_KINDS];
static struct question q;

static ey_engine *open_kind(const char *kind, const char *device, int max_model_len, int kv_tokens,
                            int max_num_seqs, int max_images)
{
    ey_engine_options options = ey_engine_defaults();
    options.device = device;
    options.threads = 2;
    options.max_model_len = max_model_len;
    options.kv_tokens = kv_tokens;
    options.max_num_seqs = max_num_seqs;
    options.max_images = max_images;
    return engine_open_with(kind, options);
}

static ey_engine *open_many(const char *device, int max_model_len, int kv_tokens, int max_num_seqs,
                            int max_images)
{
    return open_kind("tiny-gqa4-fp8", device, max_model_len, kv_tokens, max_num_seqs, max_images);
}

static ey_prompt *prepare(ey_engine *engine, const struct question *of)
{
    ey_prompt *prompt;
    ey_err e;
    if (!ey_prompt_prepare(engine, &of->request, &prompt, &e)) fail_msg("%s", e.text);
    return prompt;
}

/* ---- answers equal those of single requests ---- */

static void compare_all(const struct request_kinds *sorts, const char *what)
{
    char name[130];
    for (int i = 0; i < N_REQUEST_KINDS; i++) {
        snprintf(name, sizeof(name), "%s, request %d", what, i);
        assert_same_answer(&sorts->expected[i], &members[i].answer, name);
    }
    concurrent_requests_free(members, N_REQUEST_KINDS);
}

static void run_sorts(ey_engine *engine, const struct request_kinds *sorts, bool fresh,
                      const char *what)
{
    for (int i = 0; i < N_REQUEST_KINDS; i++) {
        members[i].request = sorts->question[i].request;
        members[i].request.no_prefix_cache = fresh;
    }
    concurrent_requests_run(members, N_REQUEST_KINDS, engine);
    compare_all(sorts, what);
    assert_at_rest(engine);
}

/* With prefixes and images cached, runs all again; then computes all again in the smallest chunks.
 */
static void run_again(ey_engine *engine, const struct request_kinds *sorts, const char *what)
{
    uint64_t encoder_runs = ey_engine_stats(engine).encoder_runs;
    assert_int_equal(encoder_runs, 2); /* two different images */
    run_sorts(engine, sorts, false, what);
    ey_stats s = ey_engine_stats(engine);
    assert_int_equal(s.encoder_runs, encoder_runs);
    assert_true(s.cached_tokens > 0);
    assert_int_equal(s.preemptions, 0);
    assert_int_equal(s.finished_stop, 4);
    assert_int_equal(s.finished_length, 2 * N_REQUEST_KINDS - 4);
    assert_int_equal(s.finished_cancelled + s.failed, 0);
    assert_true(s.steps > 0 && s.step_seconds > 0 && s.vision_seconds > 0 && s.heartbeat_age >= 0);
    engine->limits.slice_seconds = SMALLEST_SLICES;
    run_sorts(engine, sorts, true, what);
    assert_true(ey_engine_stats(engine).encoder_runs > encoder_runs);
}

static void concurrent_answers_equal_single_ones(void **state)
{
    (void)state;
    static struct request_kinds sorts;
    static const int at_once[] = {1, 3, 8};
    EACH_DEVICE(d)
    {
        ey_engine *alone = open_kind("tiny-ragged-fp8", devices[d], 640, 0, 1, 0);
        request_kinds_open(&sorts, alone);
        for (int k = 0; k < 3; k++) {
            char what[100];
            ey_engine *engine = open_kind("tiny-ragged-fp8", devices[d], 640, 8 * 640, at_once[k],
                                          0);
            snprintf(what, sizeof(what), "%s, %d at once", devices[d], at_once[k]);
            run_sorts(engine, &sorts, false, what);
            if (d == 1) run_again(engine, &sorts, what); /* the reference is slow */
            ey_engine_close(&engine);
        }
        request_kinds_close(&sorts);
        ey_engine_close(&alone);
    }
}

/* ---- preemption ---- */

/* The pool holds one whole request. Four requests run in it and grow until they exceed it. */
static void preempted_answers_equal_single_ones(void **state)
{
    (void)state;
    enum { N = 4 };
    static struct request_kinds sorts;
    static const int of_sort[N] = {0, 1, 2, 6};
    ey_engine *alone_engine = open_kind("tiny-ragged-fp8", "cpu", 512, 0, 1, 0);
    ey_answer alone[N];
    uint64_t prompt_tokens = 0;
    request_kinds_open(&sorts, alone_engine);
    for (int i = 0; i < N; i++) {
        ey_request *long_one = &sorts.question[of_sort[i]].request;
        long_one->max_tokens = 190 + 10 * i;
        long_one->no_prefix_cache = true;
        alone[i] = ask(alone_engine, &sorts.question[of_sort[i]]);
        prompt_tokens += (uint64_t)alone[i].prompt_tokens;
    }
    for (int round = 0; round < 3; round++) {
        ey_engine *engine = open_kind("tiny-ragged-fp8", "cpu", 512, 512, N, 0);
        if (round) engine->limits.slice_seconds = SMALLEST_SLICES;
        for (int i = 0; i < N; i++) {
            members[i].request = sorts.question[of_sort[i]].request;
            members[i].request.no_prefix_cache = round == 2;
        }
        concurrent_requests_run(members, N, engine);
        for (int i = 0; i < N; i++)
            assert_same_answer(&alone[i], &members[i].answer, "preempted");
        concurrent_requests_free(members, N);
        ey_stats s = ey_engine_stats(engine);
        assert_int_equal(s.kv_blocks, 8);
        assert_true(s.preemptions > 0);
        assert_int_equal(s.finished_length, N);
        assert_int_equal(s.prompt_tokens, prompt_tokens); /* each request counts once */
        assert_at_rest(engine);
        ey_engine_close(&engine);
    }
    for (int i = 0; i < N; i++)
        ey_answer_free(&alone[i]);
    request_kinds_close(&sorts);
    ey_engine_close(&alone_engine);
}

/* Requests that do not fit yet wait until others end; none starts only to be preempted. */
static void requests_wait_until_they_fit(void **state)
{
    (void)state;
    enum { N = 4, LENGTH = 200 };
    static char text[LENGTH + 1];
    ey_engine *engine = open_kind("tiny-ragged-fp8", "cpu", 512, 512, N, 0);
    for (int i = 0; i < LENGTH; i++)
        text[i] = (char)(1 + i % 2);
    question_simple(&q, 0, text, 4);
    ey_answer alone = ask(engine, &q);
    assert_in_range(alone.prompt_tokens, 3 * KV_BLOCK,
                    4 * KV_BLOCK - 4); /* two of them fill the pool */
    for (int i = 0; i < N; i++)
        members[i].request = q.request;
    pthread_mutex_lock(&engine->devices.lock); /* until all are queued */
    for (int i = 0; i < N; i++)
        concurrent_request_start(&members[i], engine);
    pthread_mutex_unlock(&engine->devices.lock);
    for (int i = 0; i < N; i++) {
        concurrent_request_collect(&members[i]);
        assert_same_answer(&alone, &members[i].answer, "four");
    }
    assert_int_equal(ey_engine_stats(engine).preemptions, 0);
    concurrent_requests_free(members, N);
    ey_answer_free(&alone);
    assert_at_rest(engine);
    ey_engine_close(&engine);
}

/* ---- prefixes ---- */

static char rules[400]; /* more than two blocks; the tokenizer merges no control characters */

static void build_after_rules(struct question *to, unsigned seed, const char *text)
{
    for (int i = 0; i < 150; i++)
        rules[i] = (char)(1 + i % 2);
    question_start(to, 6);
    question_turn(to, "system");
    question_text(to, rules);
    question_turn(to, "user");
    if (seed) question_part(to, test_image(130, 130, seed));
    question_text(to, text);
    to->request.no_prefix_cache = false;
}

static void prefixes_are_shared(void **state)
{
    (void)state;
    ey_engine *engine = open_many("cpu", 512, 2048, 2, 0);
    build_after_rules(&q, 0, "What is a fox?");
    ey_answer first = ask(engine, &q);
    build_after_rules(&q, 0, "And what is a goose?");
    ey_answer second = ask(engine, &q);
    assert_int_equal(first.cached_tokens, 0);
    assert_int_equal(second.cached_tokens, 2 * KV_BLOCK);
    assert_int_equal(ey_engine_stats(engine).cached_tokens, 2 * KV_BLOCK);
    assert_int_equal(ey_engine_stats(engine).prompt_tokens,
                     first.prompt_tokens + second.prompt_tokens);
    ey_answer_free(&first);
    ey_answer_free(&second);
    assert_at_rest(engine);
    ey_engine_close(&engine);
}

/* Equal tokens at equal positions, but after other blocks: a block's key includes all blocks before
 * it. */
static void equal_blocks_after_other_blocks(void **state)
{
    (void)state;
    ey_engine *fresh = open_many("cpu", 512, 2048, 1, 0),
              *engine = open_many("cpu", 512, 2048, 1, 0);
    for (int i = 1; i <= 3; i++) {
        build_after_rules(&q, 0, "What is a fox?");
        rules[5] = (char)(2 + i);
        q.request.no_prefix_cache = true;
        struct outcome wanted = outcome_of(fresh, &q);
        q.request.no_prefix_cache = false;
        struct outcome got = outcome_of(engine, &q);
        assert_same_outcome(&wanted, &got, "behind another block");
        assert_int_equal(ey_engine_stats(engine).cached_tokens, 0);
        outcome_free(&wanted);
        outcome_free(&got);
    }
    ey_engine_close(&fresh);
    ey_engine_close(&engine);
}

/* Two running requests share blocks, which survive the end of either. */
static void shared_while_running(void **state)
{
    (void)state;
    static struct question other;
    ey_engine *engine = open_many("cpu", 512, 2048, 2, 0);
    build_after_rules(&q, 0, "What is a fox?");
    q.request.max_tokens = 40;
    build_after_rules(&other, 0, "And what is a goose?");
    other.request.max_tokens = 8;
    q.request.no_prefix_cache = other.request.no_prefix_cache = true;
    ey_answer a = ask(engine, &q), b = ask(engine, &other);
    q.request.no_prefix_cache = other.request.no_prefix_cache = false;
    members[0].request = q.request;
    members[1].request = other.request;
    for (int round = 0; round < 3; round++) {
        concurrent_requests_run(members, 2, engine);
        assert_same_answer(&a, &members[0].answer, "first");
        assert_same_answer(&b, &members[1].answer, "second");
        assert_true(members[0].answer.cached_tokens >= 2 * KV_BLOCK &&
                    members[1].answer.cached_tokens >= 2 * KV_BLOCK);
        concurrent_requests_free(members, 2);
        assert_at_rest(engine);
    }
    ey_answer_free(&a);
    ey_answer_free(&b);
    ey_engine_close(&engine);
}

static void prefixes_are_evicted(void **state)
{
    (void)state;
    ey_engine *engine = open_many("cpu", 512, 512, 1, 0);
    build_after_rules(&q, 0, "What is a fox?");
    struct outcome first = outcome_of(engine, &q);
    ey_answer again = ask(engine, &q);
    assert_true(again.cached_tokens >= 2 * KV_BLOCK);
    ey_answer_free(&again);
    static struct question other; /* fills the pool */
    question_simple(&other, 0, "Tell me a very long story.", 470);
    again = ask(engine, &other);
    ey_answer_free(&again);
    again = ask(engine, &q);
    assert_int_equal(again.cached_tokens, 0);
    ey_answer_free(&again);
    struct outcome second = outcome_of(engine, &q);
    assert_same_outcome(&first, &second, "after it was forgotten");
    outcome_free(&first);
    outcome_free(&second);
    ey_engine_close(&engine);
}

/* Texts and sizes, and so ids, are equal; only the pixels differ. */
static void other_images_share_nothing(void **state)
{
    (void)state;
    ey_engine *fresh = open_many("cpu", 512, 2048, 1, 0),
              *engine = open_many("cpu", 512, 2048, 2, 0);
    static const char text[] = "What is this? It may help to know that the image was made up "
                               "from numbers, and is of nothing that there is.";
    for (unsigned seed = 1; seed <= 3; seed++) {
        const unsigned one[] = {seed, 4 - seed};
        question_start(&q, 8);
        question_turn(&q, "user");
        for (int i = 0; i < 2; i++)
            question_part(&q, test_image(130, 130, one[i]));
        question_text(&q, text);
        struct outcome wanted = outcome_of(fresh, &q);
        q.request.no_prefix_cache = false;
        struct outcome got = outcome_of(engine, &q);
        assert_same_outcome(&wanted, &got, "another image");
        outcome_free(&wanted);
        outcome_free(&got);
        ey_prompt *prompt = prepare(engine, &q);
        assert_true(prompt->ids.n > 2 * KV_BLOCK && prompt->images[0].span.first < KV_BLOCK);
        ey_prompt_free(&prompt);
        assert_int_equal(ey_engine_stats(engine).cached_tokens, 0);
    }
    ey_engine_close(&fresh);
    /* the blocks before the image are equal, and shared */
    build_after_rules(&q, 1, text);
    ey_answer a = ask(engine, &q);
    build_after_rules(&q, 2, text);
    ey_answer b = ask(engine, &q);
    assert_int_equal(a.cached_tokens, 0);
    assert_int_equal(b.cached_tokens, 2 * KV_BLOCK);
    assert_int_equal(a.prompt_tokens, b.prompt_tokens);
    ey_answer_free(&a);
    ey_answer_free(&b);
    assert_at_rest(engine);
    ey_engine_close(&engine);
}

/* ---- images ---- */

static void ask_of(ey_engine *engine, unsigned seed, const char *text, bool cached)
{
    question_start(&q, 3);
    question_turn(&q, "user");
    question_text(&q, text);
    question_part(&q, test_image(512, 512, seed)); /* 256 tokens: 4 blocks */
    q.request.no_prefix_cache = false;
    hooks_reset(NULL, NULL);
    ey_answer a = ask(engine, &q);
    assert_int_equal(a.images[0].tokens, 256);
    assert_int_equal(a.images[0].cached, cached);
    assert_int_equal(hooks_count(OP_ENCODER), cached ? 0 : 1);
    ey_answer_free(&a);
}

static void images_are_kept(void **state)
{
    (void)state;
    ey_engine *engine = open_many("cpu", 1024, 0, 1, 1); /* 9 feature blocks */
    hooks_on(engine);
    assert_int_equal(ey_engine_stats(engine).image_cache_tokens, 576);
    ask_of(engine, 1, "What is this?", false);
    ask_of(engine, 1, "A second question about", true);
    ask_of(engine, 2, "Another image:", false);
    ask_of(engine, 1, "The first one again:", true);
    ask_of(engine, 3, "A third image:", false); /* evicts the second image */
    ask_of(engine, 1, "Yet another question about", true);
    ask_of(engine, 3, "And of the third:", true);
    ask_of(engine, 2, "The second, once more:", false);
    ask_of(engine, 1, "The first had to go:", false);
    ey_stats s = ey_engine_stats(engine);
    assert_int_equal(s.images, 9);
    assert_int_equal(s.images_cached, 4);
    assert_int_equal(s.encoder_runs, 5);
    assert_int_equal(s.image_cache_tokens_used, 512);
    assert_true(s.image_cache_bytes > 0 && s.vision_seconds > 0);
    assert_at_rest(engine);
    ey_engine_close(&engine);
}

static void many_answers_to_one_prompt(void **state)
{
    (void)state;
    enum { N = 4 };
    ey_engine *engine = open_many("cpu", 512, 2048, N, 0);
    hooks_on(engine);
    ey_answer alone[N];
    question_simple(&q, 2, "What is this?", 30);
    q.request.sampling.temperature = 1.5f;
    for (int i = 0; i < N; i++) {
        q.request.sampling.seed = (uint64_t)i;
        alone[i] = ask(engine, &q);
        assert_false(i && alone[i].tokens[0] == alone[0].tokens[0] &&
                     alone[i].tokens[1] == alone[0].tokens[1]);
    }
    engine_forget(engine);
    engine->limits.slice_seconds = SMALLEST_SLICES;
    hooks_reset(NULL, NULL);
    ey_prompt *prompt = prepare(engine, &q);
    for (int i = 0; i < N; i++) {
        members[i].request = q.request;
        members[i].request.no_prefix_cache = false;
        members[i].request.sampling.seed = (uint64_t)i;
        concurrent_request_start_from(&members[i], engine, prompt);
    }
    ey_prompt_free(&prompt); /* the generations hold what they need */
    for (int i = 0; i < N; i++)
        concurrent_request_collect(&members[i]);
    for (int i = 0; i < N; i++)
        assert_same_answer(&alone[i], &members[i].answer, "one of several");
    assert_int_equal(hooks_count(OP_ENCODER), 2); /* two images, encoded once each */
    concurrent_requests_free(members, N);
    for (int i = 0; i < N; i++)
        ey_answer_free(&alone[i]);
    assert_at_rest(engine);
    ey_engine_close(&engine);
}

/* ---- slices ---- */

enum { LARGE_CONTEXT = 2400, FOREVER = 100000 };

struct between {
    struct concurrent_request *first; /* the answer that is decoded meanwhile */
    int from, to;                     /* its tokens at the start and the end of the encoder run */
    int tiles;
};

static int tokens_of(const ey_generation *gen)
{
    pthread_mutex_lock(&gen->engine->scheduler.lock);
    int n = gen->n_tokens;
    pthread_mutex_unlock(&gen->engine->scheduler.lock);
    return n;
}

static void note_encoder(void *user, enum op op, int n)
{
    struct between *b = user;
    (void)n;
    if (op == OP_ENCODER) b->from = tokens_of(b->first->gen);
    if (op == OP_MERGE) b->to = tokens_of(b->first->gen);
    b->tiles += op == OP_TILE || op == OP_MERGE;
}

/* Starts an answer that runs until it is cancelled. After its first tokens it pauses until
 * start_with. */
static void start_endless(struct concurrent_request *m, ey_engine *engine,
                          struct question *question)
{
    engine->limits.max_unread = 2;
    question_simple(question, 0, "Tell me a story that never ends.", 0);
    m->request = question->request;
    concurrent_request_start(m, engine);
    while (!m->n_tokens)
        concurrent_request_poll(m, 1000);
}

/* Starts m; from now on the endless answer continues, too. */
static void start_with(struct concurrent_request *m, ey_engine *engine, ey_prompt *prompt)
{
    pthread_mutex_lock(&engine->devices.lock);
    pthread_mutex_lock(&engine->scheduler.lock);
    engine->limits.max_unread = FOREVER;
    pthread_mutex_unlock(&engine->scheduler.lock);
    concurrent_request_start_from(m, engine, prompt);
    pthread_mutex_unlock(&engine->devices.lock);
}

static void collect_cancelled(struct concurrent_request *m)
{
    ey_generation_cancel(m->gen);
    concurrent_request_collect(m);
    assert_int_equal(m->answer.finish_reason, EY_FINISH_CANCELLED);
    concurrent_request_free(m);
}

/* During the vision encoder's run on a large image, another answer gets a token for each tile. */
static void tokens_between_vision_tiles(void **state)
{
    (void)state;
    static struct question endless, seeing;
    ey_engine *engine = open_many("cpu", LARGE_CONTEXT, 2 * LARGE_CONTEXT, 2, 0);
    struct between between = {.first = &members[0]};
    hooks_on(engine);
    engine->limits.slice_seconds = SMALLEST_SLICES;
    hooks_reset(note_encoder, &between);
    question_start(&seeing, 2);
    question_turn(&seeing, "user");
    question_part(&seeing, test_image(1024, 1024, 1));
    question_text(&seeing, "What is this?");
    ey_prompt *prompt = prepare(engine, &seeing);
    start_endless(&members[0], engine, &endless);
    members[1].request = seeing.request;
    start_with(&members[1], engine, prompt);
    ey_prompt_free(&prompt);
    concurrent_request_collect(&members[1]);
    assert_int_equal(members[1].answer.images[0].tokens, 1024);
    concurrent_request_free(&members[1]);
    collect_cancelled(&members[0]); /* the hook is not called any more */
    assert_true(between.tiles >= 20);
    if (between.to - between.from < between.tiles - 2)
        fail_msg("%d tokens in %d tiles of the encoder", between.to - between.from, between.tiles);
    assert_at_rest(engine);
    ey_engine_close(&engine);
}

/* During a long prompt, another answer gets a token for each small chunk. */
static void tokens_with_a_prompt(void **state)
{
    (void)state;
    enum { LENGTH = 1000 };
    static struct question endless, reading;
    static char text[LENGTH + 1];
    ey_engine *engine = open_many("cpu", LARGE_CONTEXT, 2 * LARGE_CONTEXT, 2, 0);
    engine->limits.slice_seconds = SMALLEST_SLICES;
    for (int i = 0; i < LENGTH; i++)
        text[i] = (char)(1 + i % 2);
    question_simple(&reading, 0, text, 1);
    ey_prompt *prompt = prepare(engine, &reading);
    start_endless(&members[0], engine, &endless);
    members[1].request = reading.request;
    int before = tokens_of(members[0].gen);
    start_with(&members[1], engine, prompt);
    ey_prompt_free(&prompt);
    concurrent_request_collect(&members[1]);
    int more = tokens_of(members[0].gen) - before;
    assert_true(members[1].answer.prompt_tokens > LENGTH);
    if (more < LENGTH / 16)
        fail_msg("%d tokens during a prompt of %d", more, members[1].answer.prompt_tokens);
    concurrent_request_free(&members[1]);
    collect_cancelled(&members[0]);
    assert_at_rest(engine);
    ey_engine_close(&engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(concurrent_answers_equal_single_ones),
        cmocka_unit_test(preempted_answers_equal_single_ones),
        cmocka_unit_test(requests_wait_until_they_fit),
        cmocka_unit_test(prefixes_are_shared),
        cmocka_unit_test(equal_blocks_after_other_blocks),
        cmocka_unit_test(shared_while_running),
        cmocka_unit_test(prefixes_are_evicted),
        cmocka_unit_test(other_images_share_nothing),
        cmocka_unit_test(images_are_kept),
        cmocka_unit_test(many_answers_to_one_prompt),
        cmocka_unit_test(tokens_between_vision_tiles),
        cmocka_unit_test(tokens_with_a_prompt),
    };
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
