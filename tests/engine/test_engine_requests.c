/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the public API: limits and errors, events, cancelling, log-probabilities, special
 * tokens in text, pixel budgets, several threads. */
#include <math.h>
#include <pthread.h>

#include "engine/sample/logprobs.h"
#include "engine/engine_fixture.h"
#include "engine/op_hooks.h"
#include "engine/request/prompt_images.h"
#include "models/ckpt_edit.h"

static const char *const devices[] = {ENGINE_DEVICES};
enum { N_DEVICES = sizeof(devices) / sizeof(devices[0]) };
#define EACH_DEVICE(d) for (int d = 0; d < N_DEVICES; d++)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct question q;

static void expect_error(bool ok, const ey_err *e, ey_code code, const char *says, const char *what)
{
    if (ok) fail_msg("%s: was accepted", what);
    if (e->code != code || !strstr(e->text, says))
        fail_msg("%s: code %d, %s", what, (int)e->code, e->text);
}

/* ---- opening ---- */

static void open_errors(void **state)
{
    (void)state;
    const char *good = ckpt_make(fixture_dir(), "tiny-ragged-fp8");
    static char short_model[400];
    snprintf(short_model, sizeof(short_model), "%s/short", fixture_dir());
    ckpt_copy(good, short_model);
    ckpt_set(short_model, "config.json", "text_config.max_position_embeddings", "256");
    const struct {
        const char *what;
        ey_engine_options options;
        ey_code code;
        const char *says;
    } rows[] = {
        {"no model", {.device = "ref"}, EY_BAD_REQUEST, "model"},
        {"no such directory",
         {.model = "/nowhere/at/all", .device = "ref"},
         EY_NOT_FOUND,
         "/nowhere/at/all"},
        {"no such repository",
         {.model = "nobody/nothing", .device = "ref"},
         EY_NOT_FOUND,
         "nobody/nothing"},
        {"unknown device", {.model = good, .device = "abacus"}, EY_BAD_REQUEST, "abacus"},
        {"unknown mask",
         {.model = good, .device = "cpu", .cpu_mask = "mmx"},
         EY_BAD_REQUEST,
         "mmx"},
        {"threads -1", {.model = good, .device = "ref", .threads = -1}, EY_BAD_REQUEST, "-1"},
        {"threads 257", {.model = good, .device = "cpu", .threads = 257}, EY_BAD_REQUEST, "257"},
        {"context -1", {.model = good, .device = "ref", .max_model_len = -1}, EY_BAD_REQUEST, "-1"},
        {"context 257 of 256",
         {.model = short_model, .device = "ref", .max_model_len = 257},
         EY_BAD_REQUEST,
         "257"},
        {"context 2^31-1",
         {.model = good, .device = "cpu", .max_model_len = 2147483647},
         EY_BAD_REQUEST,
         "2147483647"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ey_engine *engine = (ey_engine *)&rows; /* must become NULL */
        ey_err e = {0};
        ey_engine_options options = rows[i].options;
        options.size = sizeof(options);
        expect_error(ey_engine_open(&engine, &options, &e), &e, rows[i].code, rows[i].says,
                     rows[i].what);
        assert_null(engine);
        ey_engine_close(&engine);
    }
    static const int wanted[][2] = {{256, 256}, {0, 256}, {1, 1}, {2, 2}, {65, 65}};
    EACH_DEVICE(d)
    for (size_t i = 0; i < COUNT(wanted); i++) {
        ey_engine *engine = engine_open(short_model, devices[d], 1, wanted[i][0]);
        assert_int_equal(ey_engine_describe(engine).max_model_len, wanted[i][1]);
        if (wanted[i][1] < 10) {
            ey_answer answer;
            ey_err e;
            question_simple(&q, 1, "Hello", 1);
            expect_error(ey_ask(engine, &q.request, &answer, &e), &e, EY_TOO_LONG,
                         "--max-model-len", "tiny context");
            ey_answer_free(&answer);
        }
        ey_engine_close(&engine);
    }
}

/* ---- bad requests ---- */

static void no_messages(void)
{
    q.request.n_messages = 0;
}
static void negative_tokens(void)
{
    q.request.max_tokens = -7;
}
static void many_logprobs(void)
{
    q.request.top_logprobs = 21;
}
static void unknown_role(void)
{
    q.messages[0].role = "robot";
}
static void not_an_image(void)
{
    question_part(&q, ey_image_part("GIF89a, not", 11));
}
static void empty_image(void)
{
    question_part(&q, ey_image_part("", 0));
}
static void bad_detail(void)
{
    ey_part part = test_image(64, 64, 1);
    part.detail = (ey_detail)9;
    question_part(&q, part);
}
static void many_images(void)
{
    for (int i = 0; i < 65; i++)
        question_part(&q, test_image(64, 64, 1));
}
static void images_beyond_context(void)
{
    for (int i = 0; i < 64; i++)
        question_part(&q, test_image(8, 1200, 1));
}
static void thin_image(void)
{
    question_part(&q, test_image(1, 300, 1));
}
static void long_text(void)
{
    static char text[4000];
    memset(text, 1, sizeof(text));
    question_part(&q, (ey_part){.type = EY_PART_TEXT, .bytes = text, .n_bytes = sizeof(text)});
}
static void typed_pad(void)
{
    q.request.parse_special_tokens = true;
    question_part(&q, test_image(64, 64, 1));
    question_text(&q, "<|image_pad|>");
}

static const struct {
    const char *what;
    void (*change)(void);
    ey_code code;
    const char *says;
} bad_rows[] = {
    {"no messages", no_messages, EY_BAD_REQUEST, "no messages"},
    {"max_tokens -7", negative_tokens, EY_BAD_REQUEST, "-7"},
    {"21 top_logprobs", many_logprobs, EY_BAD_REQUEST, "21"},
    {"unknown role", unknown_role, EY_BAD_REQUEST, "robot"},
    {"no image", not_an_image, EY_BAD_IMAGE, "image"},
    {"empty image", empty_image, EY_BAD_IMAGE, "image"},
    {"side ratio 300", thin_image, EY_BAD_IMAGE, "300"},
    {"detail 9", bad_detail, EY_BAD_REQUEST, "9"},
    {"65 images", many_images, EY_BAD_REQUEST, "more than 64 images"},
    {"images beyond half the context", images_beyond_context, EY_TOO_LONG, "64 images"},
    {"long text", long_text, EY_TOO_LONG, "--max-model-len"},
    {"typed pad parsed beside an image", typed_pad, EY_BAD_REQUEST, "image"},
};

static void bad_requests(void **state)
{
    (void)state;
    EACH_DEVICE(d)
    {
        ey_engine_options options = ey_engine_defaults();
        options.device = devices[d];
        options.threads = 2;
        options.max_model_len = 512;
        options.max_images = EY_MAX_IMAGES;
        ey_engine *engine = engine_open_with("tiny-ragged-fp8", options);
        question_simple(&q, 1, "Hello there", 4);
        struct outcome fresh = outcome_of(engine, &q);
        for (size_t i = 0; i < COUNT(bad_rows); i++) {
            ey_answer answer;
            ey_err e = {0};
            question_simple(&q, 0, "Hello", 4);
            bad_rows[i].change();
            expect_error(ey_ask(engine, &q.request, &answer, &e), &e, bad_rows[i].code,
                         bad_rows[i].says, bad_rows[i].what);
            ey_answer_free(&answer);
            ey_answer_free(&answer);
            question_simple(&q, 1, "Hello there", 4);
            struct outcome o = outcome_of(engine, &q);
            assert_same_outcome(&fresh, &o, bad_rows[i].what);
            outcome_free(&o);
        }
        assert_at_rest(engine);
        outcome_free(&fresh);
        ey_engine_close(&engine);
    }
}

/* ---- finish reasons and lengths ---- */

static void lengths(void **state)
{
    (void)state;
    ey_engine *engine = engine_open("tiny-gqa4-bf16", "cpu", 2, 512);
    question_simple(&q, 1, "Hello", 1);
    q.parts[0][0].max_pixels = 4096; /* else a shorter context would shrink the image */
    ey_answer a = ask(engine, &q);
    assert_int_equal(a.n_tokens, 1);
    assert_int_equal(a.finish_reason, EY_FINISH_LENGTH);
    int prompt = a.prompt_tokens;
    ey_answer_free(&a);
    ey_engine_close(&engine);
    static const int rooms[][3] = {{1, 0, 1},
                                   {2, 0, 2},
                                   {5, 5, 5},
                                   /* room, max_tokens, expected tokens */
                                   {5, 9, 5},
                                   {5, 4, 4},
                                   {40, 0, 40}};
    EACH_DEVICE(d)
    for (size_t i = 0; i < COUNT(rooms); i++) {
        engine = engine_open("tiny-gqa4-bf16", devices[d], 2, prompt + rooms[i][0]);
        question_simple(&q, 1, "Hello", rooms[i][1]);
        q.parts[0][0].max_pixels = 4096;
        a = ask(engine, &q);
        assert_int_equal(a.prompt_tokens, prompt);
        assert_int_equal(a.n_tokens, rooms[i][2]);
        assert_int_equal(a.completion_tokens, rooms[i][2]);
        assert_int_equal(a.finish_reason, EY_FINISH_LENGTH);
        ey_answer_free(&a);
        ey_engine_close(&engine);
    }
    ey_err e;
    engine = engine_open("tiny-gqa4-bf16", "cpu", 2, prompt);
    expect_error(ey_ask(engine, &q.request, &a, &e), &e, EY_TOO_LONG, "leaves no room",
                 "a prompt as long as the context");
    ey_answer_free(&a);
    ey_engine_close(&engine);
}

static int first_place(const int *ids, int n, int id)
{
    int i = 0;
    while (i < n && ids[i] != id)
        i++;
    return i;
}

static void stop_token(void **state)
{
    (void)state;
    static char dir[400];
    char eos[32];
    ey_engine *engine = engine_open("tiny-untied-bf16", "ref", 2, 512);
    question_simple(&q, 1, "Hello", 12);
    struct outcome whole = outcome_of(engine, &q);
    ey_engine_close(&engine);
    int stop = first_place(whole.ids, whole.n, whole.ids[7]);
    snprintf(dir, sizeof(dir), "%s/stops", fixture_dir());
    ckpt_copy(ckpt_make(fixture_dir(), "tiny-untied-bf16"), dir);
    snprintf(eos, sizeof(eos), "[3,%d]", whole.ids[7]);
    ckpt_set(dir, "generation_config.json", "eos_token_id", eos);
    engine = engine_open(dir, "ref", 2, 512);
    q.request.ignore_eos = false;
    q.request.top_logprobs = 2;
    ey_answer a = ask(engine, &q);
    assert_int_equal(a.finish_reason, EY_FINISH_STOP);
    assert_int_equal(a.n_tokens, stop);
    assert_int_equal(a.completion_tokens, stop + 1);
    assert_int_equal(a.n_logprobs, stop + 1);
    assert_int_equal(a.logprobs[stop].chosen.id, whole.ids[7]);
    assert_memory_equal(a.tokens, whole.ids, (size_t)stop * sizeof(int));
    ey_answer_free(&a);
    q.request.ignore_eos = true;
    struct outcome again = outcome_of(engine, &q);
    assert_same_outcome(&whole, &again, "ignore_eos");
    outcome_free(&again);
    outcome_free(&whole);
    ey_engine_close(&engine);
}

/* ---- events ---- */

struct heard {
    char text[8192];
    size_t n_text;
    int n_tokens, most_at_once; /* of the last event; the most between two events */
    int last_done;
    ey_phase last_phase; /* 0: no event yet */
    bool bad;
    /* cancelling */
    /* at text event number `cancel_at`, else at the first event with so many tokens */
    bool at_text;
    int cancel_at; /* -1: never */
    int n_texts;
    bool refused;
    int after; /* events after the refusal */
};

static int phase_rank(ey_phase phase)
{
    static const ey_phase phases[] = {EY_PHASE_QUEUE, EY_PHASE_VISION, EY_PHASE_PREFILL,
                                      EY_PHASE_DECODE};
    for (int i = 0; i < 4; i++)
        if (phase == phases[i]) return i;
    return -1;
}

static void hear_phase(struct heard *h, const ey_event *event)
{
    bool same = h->last_phase == event->phase;
    h->bad |= phase_rank(event->phase) < 0 || event->done < 0 || event->done > event->total ||
              (same && event->done < h->last_done);
    h->bad |= h->last_phase && phase_rank(event->phase) < phase_rank(h->last_phase);
    h->bad |= (event->n_tokens > 0) != (event->phase == EY_PHASE_DECODE) ||
              (event->n_tokens && event->n_tokens != event->done);
    h->last_phase = event->phase;
    h->last_done = event->done;
}

static bool hear(void *user, const ey_event *event)
{
    struct heard *h = user;
    bool is_text = event->type == EY_EVENT_TEXT;
    h->after += h->refused;
    h->bad |= event->n_tokens < h->n_tokens || (!is_text && event->type != EY_EVENT_PHASE);
    if (event->n_tokens - h->n_tokens > h->most_at_once)
        h->most_at_once = event->n_tokens - h->n_tokens;
    h->n_tokens = event->n_tokens;
    if (is_text) {
        h->bad |= event->n_text == 0 || h->n_text + event->n_text > sizeof(h->text);
        if (!h->bad) {
            memcpy(h->text + h->n_text, event->text, event->n_text);
            h->n_text += event->n_text;
        }
    } else {
        hear_phase(h, event);
    }
    if (h->cancel_at < 0) return true;
    h->refused = h->at_text ? is_text && h->n_texts++ == h->cancel_at : h->n_tokens >= h->cancel_at;
    return !h->refused;
}

static void events_are_the_answer(void **state)
{
    (void)state;
    static const char *const kinds[] = {"tiny-ragged-fp8", "tiny-gqa4-f16", "tiny-old-bf16"};
    static struct heard h;
    EACH_DEVICE(d)
    for (size_t k = 0; k < COUNT(kinds); k++)
        for (int unread = 0; unread <= 1; unread++) {
            ey_engine *engine = engine_open(kinds[k], devices[d], 2, 512);
            if (unread)
                engine->limits.max_unread =
                    unread; /* each token waits until the one before was read */
            question_simple(&q, (int)k, "Tell me.", 60);
            h = (struct heard){.cancel_at = -1};
            q.request.on_event = hear;
            q.request.event_user = &h;
            ey_answer a = ask(engine, &q);
            assert_false(h.bad);
            assert_int_equal(h.n_text, a.n_text);
            assert_memory_equal(h.text, a.text, a.n_text);
            assert_int_equal(a.n_tokens, 60);
            if (unread) assert_int_equal(h.most_at_once, 1);
            if (unread) assert_in_range(h.n_tokens, 59, 60);
            ey_answer_free(&a);
            ey_engine_close(&engine);
        }
}

/* The text of the events and the tokens are prefixes of the whole answer. If most > least, the
 * answer may have had its last token before the caller's refusal, and then it ended by itself. */
static void check_cancelled(ey_answer *a, const struct heard *h, const struct outcome *whole,
                            int least, int most, const char *what)
{
    const bool had_ended = most > least && a->n_tokens == whole->n &&
                           a->finish_reason == EY_FINISH_LENGTH;
    if ((!had_ended && a->finish_reason != EY_FINISH_CANCELLED) || a->n_tokens < least ||
        a->n_tokens > most)
        fail_msg("%s: ended by \"%s\" after %d tokens", what, ey_finish_text(a->finish_reason),
                 a->n_tokens);
    assert_int_equal(h->after, 0);
    assert_memory_equal(a->tokens, whole->ids, (size_t)a->n_tokens * sizeof(int));
    assert_true(h->n_text <= a->n_text && memcmp(h->text, a->text, h->n_text) == 0);
    ey_answer_free(a);
}

static void ask_something_else(struct question *other)
{
    question_simple(
        other, 2,
        "Something else entirely, with a longer text so that more of the cache is overwritten.",
        20);
}

static void check_next(ey_engine *engine, const struct outcome *wanted, const char *what)
{
    assert_at_rest(engine);
    question_simple(&q, 2, "What is this? Answer with one word.", 20);
    struct outcome o = outcome_of(engine, &q);
    assert_same_outcome(wanted, &o, what);
    outcome_free(&o);
}

/* The callback cancels by returning false. */
static void refused_events(void **state)
{
    (void)state;
    static const struct {
        bool at_text;
        int at;
    } rows[] = {{true, 0}, {true, 4}, {false, 0}, {false, 1}, {false, 10}, {false, 19}};
    static struct question other;
    static struct heard h;
    EACH_DEVICE(d)
    {
        ey_engine *engine = engine_open("tiny-shards-fp8", devices[d], 2, 512);
        engine->limits.max_unread = 1;
        question_simple(&q, 2, "What is this? Answer with one word.", 20);
        struct outcome fresh = outcome_of(engine, &q);
        ask_something_else(&other);
        struct outcome whole = outcome_of(engine, &other);
        other.request.on_event = hear;
        other.request.event_user = &h;
        for (size_t i = 0; i < COUNT(rows); i++) {
            char what[64];
            snprintf(what, sizeof(what), "%s, at %s %d", devices[d],
                     rows[i].at_text ? "text" : "token", rows[i].at);
            h = (struct heard){.at_text = rows[i].at_text, .cancel_at = rows[i].at};
            engine_set_rows(engine, 16, 16); /* several chunks */
            ey_answer a = ask(engine, &other);
            engine_set_rows(engine, 512, 512);
            if (!h.refused) fail_msg("%s: the callback refused no event", what);
            assert_false(h.bad);
            check_cancelled(&a, &h, &whole, h.n_tokens, h.n_tokens + 1, what);
            check_next(engine, &fresh, what);
        }
        outcome_free(&fresh);
        outcome_free(&whole);
        ey_engine_close(&engine);
    }
}

/* ey_generation_cancel from another thread, during the device's work. */
static void cancelling(void **state)
{
    (void)state;
    static const struct {
        enum op op;
        int at, tokens; /* of the expected answer */
        const char *what;
    } rows[] = {{OP_ENCODER, 1, 0, "first image"}, {OP_TILE, 2, 0, "a tile"},
                {OP_MERGE, 1, 0, "a merger"},      {OP_ENCODER, 2, 0, "second image"},
                {OP_STEP, 1, 0, "first chunk"},    {OP_LAYER, 3, 0, "a layer of a chunk"},
                {OP_STEP, 3, 0, "third chunk"},    {OP_LOGITS, 1, 1, "first token"},
                {OP_LOGITS, 10, 10, "tenth token"}};
    static struct question other;
    static struct heard h;
    EACH_DEVICE(d)
    {
        ey_engine *engine = engine_open("tiny-shards-fp8", devices[d], 2, 512);
        hooks_on(engine);
        question_simple(&q, 2, "What is this? Answer with one word.", 20);
        struct outcome fresh = outcome_of(engine, &q);
        ask_something_else(&other);
        struct outcome whole = outcome_of(engine, &other);
        other.request.on_event = hear;
        other.request.event_user = &h;
        for (size_t i = 0; i < COUNT(rows); i++) {
            h = (struct heard){.cancel_at = -1};
            engine_set_rows(engine, 16, 16);
            ey_answer a = ask_cancelled(engine, &other, rows[i].op, rows[i].at);
            engine_set_rows(engine, 512, 512);
            check_cancelled(&a, &h, &whole, rows[i].tokens, rows[i].tokens, rows[i].what);
            check_next(engine, &fresh, rows[i].what);
        }
        outcome_free(&fresh);
        outcome_free(&whole);
        ey_engine_close(&engine);
    }
}

/* ---- log-probabilities ---- */

static void check_logprobs(const ey_answer *a, int n_top)
{
    assert_int_equal(a->n_logprobs, a->completion_tokens);
    for (size_t i = 0; i < a->n_logprobs; i++) {
        const ey_token_logprobs *l = &a->logprobs[i];
        double sum = 0;
        assert_int_equal(l->n_top, n_top);
        assert_int_equal(l->chosen.id, a->tokens[i]);
        assert_non_null(l->chosen.token);
        for (int k = 0; k < n_top; k++) {
            sum += exp((double)l->top[k].logprob);
            assert_true(l->top[k].logprob <= 0);
            if (k) assert_true(l->top[k].logprob <= l->top[k - 1].logprob);
            for (int j = 0; j < k; j++)
                assert_int_not_equal(l->top[k].id, l->top[j].id);
        }
        assert_true(sum <= 1 + 1e-5);
        if (!n_top) continue;
        assert_int_equal(l->top[0].id, l->chosen.id); /* greedy */
        assert_true(l->top[0].logprob == l->chosen.logprob);
        assert_string_equal(l->top[0].token, l->chosen.token);
    }
}

static void last_logprobs_by_hand(const ey_engine *engine, const ey_answer *a)
{
    const float *logits = engine->buffers.host.logits;
    const ey_token_logprobs *last = &a->logprobs[a->n_logprobs - 1];
    long double sum = 0;
    int n = engine->devices.model.text.vocab_size;
    for (int i = 0; i < n; i++)
        sum += expl((long double)logits[i]);
    for (size_t k = 0; k < last->n_top; k++) {
        double wanted = (double)((long double)logits[last->top[k].id] - logl(sum));
        assert_true(fabs(wanted - (double)last->top[k].logprob) < 2e-6 * (1 + fabs(wanted)));
        int better = 0; /* logits above it, or equal ones with a lower id */
        for (int i = 0; i < n; i++)
            better += logits[i] > logits[last->top[k].id] ||
                      (logits[i] == logits[last->top[k].id] && i < last->top[k].id);
        assert_int_equal(better, k);
    }
}

static void log_probabilities(void **state)
{
    (void)state;
    static const int tops[] = {-1, 0, 1, 5, 20};
    EACH_DEVICE(d)
    {
        ey_engine *engine = engine_open("tiny-ragged-fp8", devices[d], 2, 512);
        for (size_t i = 0; i < COUNT(tops); i++) {
            question_simple(&q, 1, "Hello", 8);
            q.request.top_logprobs = tops[i];
            ey_answer a = ask(engine, &q);
            if (tops[i] < 0)
                assert_int_equal(a.n_logprobs, 0);
            else {
                check_logprobs(&a, tops[i]);
                last_logprobs_by_hand(engine, &a);
            }
            ey_answer_free(&a);
        }
        ey_engine_close(&engine);
    }
}

static void scores_of_made_up_logits(void **state)
{
    (void)state;
    static const float logits[] = {1, 88.0f, -3, 88.0f, -1e30f, 87.5f, -INFINITY};
    struct token_logprob chosen, top[6];
    assert_int_equal(logits_argmax(logits, 7), 1);
    logits_score(logits, 7, 5, 6, &chosen, top);
    static const int ids[] = {1, 3, 5, 0, 2, 4};
    for (int i = 0; i < 6; i++)
        assert_int_equal(top[i].id, ids[i]);
    double total = 88.0 + log(2 + exp(-0.5) + exp(-87.0) + exp(-91.0));
    assert_true(fabs((double)chosen.logprob - (87.5 - total)) < 1e-6);
    assert_true(fabs((double)top[3].logprob - (1 - total)) < 1e-5);
}

/* ---- special tokens in text ---- */

static void typed_special_tokens(void **state)
{
    (void)state;
    static const char *const typed[] = {"<|image_pad|>", "<|im_start|>system\n",
                                        "<|vision_start|><|image_pad|><|vision_end|>",
                                        "<|im_end|>"};
    ey_engine *engine = engine_open("tiny-ragged-fp8", "cpu", 1, 512);
    for (size_t i = 0; i < COUNT(typed); i++) {
        int *ids;
        size_t n;
        ey_err e;
        question_simple(&q, 0, "", 1);
        ey_answer empty = ask(engine, &q);
        question_simple(&q, 0, typed[i], 1);
        ey_answer text = ask(engine, &q);
        q.request.parse_special_tokens = true;
        ey_answer parsed = ask(engine, &q);
        question_simple(&q, 1, typed[i], 1);
        ey_answer with = ask(engine, &q);
        assert_int_equal(text.image_tokens, 0);
        assert_int_equal(parsed.image_tokens, 0);
        assert_int_equal(with.image_tokens, with.images[0].tokens);
        assert_true(ey_tokenize(engine, typed[i], strlen(typed[i]), false, &ids, &n, &e));
        /* the text follows "user\n", which merges with no "<" */
        assert_int_equal(text.prompt_tokens, empty.prompt_tokens + (int)n);
        for (size_t k = 0; k < n; k++)
            assert_false(tokenizer_is_special(engine->devices.tok, ids[k]));
        free(ids);
        assert_true(ey_tokenize(engine, typed[i], strlen(typed[i]), true, &ids, &n, &e));
        assert_int_equal(parsed.prompt_tokens, empty.prompt_tokens + (int)n);
        assert_true(parsed.prompt_tokens < text.prompt_tokens);
        assert_true(tokenizer_is_special(engine->devices.tok, ids[0]));
        free(ids);
        ey_answer_free(&empty);
        ey_answer_free(&text);
        ey_answer_free(&parsed);
        ey_answer_free(&with);
    }
    assert_string_equal(ey_token_text(engine, -1), "");
    assert_string_equal(ey_token_text(engine, 1 << 30), "");
    ey_engine_close(&engine);
}

/* ---- images ---- */

/* The cached features of an image at all levels: [1 + n_deepstack, tokens, hidden]. */
static float *features_of(ey_engine *engine, const struct image_entry *entry)
{
    size_t hidden = (size_t)engine->devices.model.text.hidden, n = (size_t)entry->n_tokens;
    int levels = 1 + engine->devices.model.vision.n_deepstack;
    float *out = malloc((size_t)levels * n * hidden * sizeof(float)), *to = out;
    assert_non_null(out);
    backend_take(engine);
    for (int level = 0; level < levels; level++)
        for (int i = 0; i < entry->n_tokens; i++, to += hidden)
            engine->devices.be->ops->memory->read(
                engine->devices.be, to,
                engine->devices.be->ops->memory->at(
                    engine->devices.be, engine->buffers.ws.features[level].rows, ELEMENT_FEATURE,
                    (size_t)feature_row(entry, i) * hidden),
                ELEMENT_FEATURE, hidden);
    backend_give_back(engine);
    return out;
}

static const struct image_entry *only_entry(ey_engine *engine)
{
    const struct image_entry *found = NULL;
    for (int i = 0; i < engine->caches.images.n_blocks; i++) {
        if (!engine->caches.images.entry[i].used) continue;
        assert_null(found);
        found = &engine->caches.images.entry[i];
    }
    assert_non_null(found);
    return found;
}

static void same_image_twice(void **state)
{
    (void)state;
    EACH_DEVICE(d)
    {
        ey_engine *engine = engine_open("tiny-head72-bf16", devices[d], 2, 512);
        ey_part p = test_image(430, 297, 3); /* several feature blocks */
        question_start(&q, 5);
        question_turn(&q, "system");
        question_text(&q, "Be brief.");
        question_turn(&q, "user");
        question_part(&q, p);
        question_text(&q, "What is this?");
        question_turn(&q, "assistant");
        question_text(&q, "A square.");
        question_turn(&q, "user");
        question_text(&q, "And this:");
        question_part(&q, p);
        question_text(&q, "?");
        ey_answer a = ask(engine, &q);
        assert_int_equal(a.n_images, 2);
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(a.images[i].width, 430);
            assert_int_equal(a.images[i].height, 297);
            assert_int_equal(a.images[i].tokens,
                             a.images[i].used_width / 32 * (a.images[i].used_height / 32));
            assert_int_equal(a.images[i].tokens, a.images[0].tokens);
            assert_false(a.images[i].cached);
        }
        int tokens = a.images[0].tokens;
        assert_true(tokens > FEATURE_BLOCK);
        assert_int_equal(a.image_tokens, 2 * tokens);
        assert_int_equal(ey_engine_stats(engine).encoder_runs, 1);
        assert_int_equal(only_entry(engine)->n_tokens, tokens);
        /* they do not depend on the place of their blocks */
        size_t bytes = (size_t)(1 + engine->devices.model.vision.n_deepstack) * (size_t)tokens *
                       (size_t)engine->devices.model.text.hidden * sizeof(float);
        float *first = features_of(engine, only_entry(engine));
        int32_t block = only_entry(engine)->block[0];
        engine_shuffle(engine, 3);
        ey_answer b = ask(engine, &q);
        float *second = features_of(engine, only_entry(engine));
        assert_int_not_equal(only_entry(engine)->block[0], block);
        assert_memory_equal(first, second, bytes);
        assert_int_equal(b.n_tokens, a.n_tokens);
        assert_memory_equal(b.tokens, a.tokens, (size_t)a.n_tokens * sizeof(int));
        free(first);
        free(second);
        ey_answer_free(&a);
        ey_answer_free(&b);
        ey_engine_close(&engine);
    }
}

/* Sizes by spec 5.1 with the smallest of three limits (checkpoint, detail, share of half the
 * context), calculated by hand. */
static void pixel_budgets(void **state)
{
    (void)state;
    static const struct {
        const char *kind;
        int context, width, height;
        ey_detail detail;
        uint64_t max_pixels;
        int copies, used_width, used_height;
    } rows[] = {
        /* the official budget is 65,536 to 16,777,216; half of 8,192 tokens are 4,194,304 pixels */
        {"tiny-gqa4-bf16", 8192, 2000, 1500, EY_DETAIL_AUTO, 0, 1, 1312, 960},
        {"tiny-gqa4-bf16", 8192, 2000, 1500, EY_DETAIL_LOW, 0, 1, 576, 416},
        {"tiny-gqa4-bf16", 8192, 2000, 1500, EY_DETAIL_HIGH, 0, 1, 1984, 1504},
        {"tiny-gqa4-bf16", 8192, 2000, 1500, EY_DETAIL_NATIVE, 0, 1, 1984, 1504},
        {"tiny-gqa4-bf16", 8192, 2400, 2100, EY_DETAIL_HIGH, 0, 1, 2176, 1888},
        {"tiny-gqa4-bf16", 8192, 2400, 2100, EY_DETAIL_NATIVE, 0, 1, 2176,
         1888}, /* limited by the context, not the checkpoint */
        {"tiny-gqa4-bf16", 8192, 2000, 1500, EY_DETAIL_LOW, 1310720, 1, 1312,
         960}, /* max_pixels overrides detail */
        {"tiny-gqa4-bf16", 8192, 2000, 1500, EY_DETAIL_HIGH, 262144, 1, 576, 416},
        {"tiny-gqa4-bf16", 8192, 50, 50, EY_DETAIL_AUTO, 0, 1, 256,
         256}, /* enlarged to the checkpoint's minimum */
        {"tiny-gqa4-bf16", 8192, 50, 50, EY_DETAIL_AUTO, 65536, 1, 256, 256},
        {"tiny-gqa4-bf16", 8192, 50, 50, EY_DETAIL_AUTO, 10000, 1, 64,
         64}, /* 128 x 128 would exceed max_pixels */
        {"tiny-gqa4-bf16", 8192, 50, 50, EY_DETAIL_AUTO, 1, 1, 32, 32},
        {"tiny-gqa4-bf16", 2048, 2000, 1500, EY_DETAIL_AUTO, 0, 1, 1152, 864}, /* 1,024 tokens */
        {"tiny-gqa4-bf16", 2048, 2000, 1500, EY_DETAIL_AUTO, 0, 4, 576, 416},  /* 256 each */
        {"tiny-untied-bf16", 8192, 2000, 1500, EY_DETAIL_NATIVE, 0, 1, 576,
         416}, /* the checkpoint's 262,144 */
        {"tiny-untied-bf16", 8192, 2000, 1500, EY_DETAIL_NATIVE, UINT64_MAX, 1, 576, 416},
        {"tiny-untied-bf16", 64, 50, 50, EY_DETAIL_AUTO, 0, 4, 64, 64},
        {"tiny-untied-bf16", 64, 50, 50, EY_DETAIL_AUTO, 0, 32, 32, 32},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ey_engine_options options = ey_engine_defaults();
        options.device = "ref";
        options.threads = 1;
        options.max_model_len = rows[i].context;
        options.max_images = EY_MAX_IMAGES;
        ey_engine *engine = engine_open_with(rows[i].kind, options);
        struct ey_prompt prompt = {0};
        ey_err e = {0};
        question_start(&q, 1);
        question_turn(&q, "user");
        ey_part part = test_image(rows[i].width, rows[i].height, 0);
        part.detail = rows[i].detail;
        part.max_pixels = rows[i].max_pixels;
        for (int k = 0; k < rows[i].copies; k++)
            question_part(&q, part);
        if (!prompt_images_open(&prompt, engine, &q.request, &e))
            fail_msg("row %zu: %s", i, e.text);
        assert_int_equal(prompt.n_images, rows[i].copies);
        for (int k = 0; k < rows[i].copies; k++) {
            const ey_image_usage *usage = &prompt.usage[k];
            if (usage->used_width != rows[i].used_width ||
                usage->used_height != rows[i].used_height)
                fail_msg("row %zu: %d x %d", i, usage->used_width, usage->used_height);
            assert_int_equal(usage->tokens, rows[i].used_width / 32 * (rows[i].used_height / 32));
            assert_int_equal(usage->width, rows[i].width);
            image_free(&prompt.images[k].pixels);
        }
        arena_free(&prompt.arena);
        ey_engine_close(&engine);
    }
}

/* ---- several threads ---- */

struct asker {
    ey_engine *engine;
    struct question question;
    struct outcome wanted;
    pthread_t thread;
    bool same;
};

static void *ask_thrice(void *user)
{
    struct asker *a = user;
    a->same = true;
    for (int i = 0; i < 3; i++) {
        ey_answer answer;
        ey_err e;
        bool ok = ey_ask(a->engine, &a->question.request, &answer, &e);
        a->same = a->same && ok && answer.n_tokens == a->wanted.n &&
                  strcmp(answer.text, a->wanted.text) == 0 &&
                  memcmp(answer.tokens, a->wanted.ids, (size_t)a->wanted.n * sizeof(int)) == 0;
        if (ok) a->same = a->same && ey_token_text(a->engine, answer.tokens[0])[0] != 0;
        ey_answer_free(&answer);
    }
    return NULL;
}

static void several_threads(void **state)
{
    (void)state;
    enum { ASKERS = 3 };
    static struct asker askers[ASKERS];
    EACH_DEVICE(d)
    for (int at_once = 1; at_once <= ASKERS; at_once++) {
        ey_engine_options options = ey_engine_defaults();
        options.device = devices[d];
        options.threads = 2;
        options.max_model_len = 512;
        options.max_num_seqs = at_once;
        ey_engine *engine = engine_open_with("tiny-ragged-fp8", options);
        for (int i = 0; i < ASKERS; i++) {
            static const char *const texts[ASKERS] = {"What is this?", "Count to three.",
                                                      "Name a colour, please, and no more."};
            askers[i].engine = engine;
            question_simple(&askers[i].question, i, texts[i], 10);
            askers[i].question.request.top_logprobs = i;
            askers[i].wanted = outcome_of(engine, &askers[i].question);
        }
        for (int i = 0; i < ASKERS; i++)
            assert_int_equal(pthread_create(&askers[i].thread, NULL, ask_thrice, &askers[i]), 0);
        for (int i = 0; i < ASKERS; i++)
            pthread_join(askers[i].thread, NULL);
        for (int i = 0; i < ASKERS; i++) {
            assert_true(askers[i].same);
            outcome_free(&askers[i].wanted);
        }
        assert_at_rest(engine);
        ey_engine_close(&engine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_errors),
        cmocka_unit_test(bad_requests),
        cmocka_unit_test(lengths),
        cmocka_unit_test(stop_token),
        cmocka_unit_test(events_are_the_answer),
        cmocka_unit_test(refused_events),
        cmocka_unit_test(cancelling),
        cmocka_unit_test(log_probabilities),
        cmocka_unit_test(scores_of_made_up_logits),
        cmocka_unit_test(typed_special_tokens),
        cmocka_unit_test(same_image_twice),
        cmocka_unit_test(pixel_budgets),
        cmocka_unit_test(several_threads),
    };
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
