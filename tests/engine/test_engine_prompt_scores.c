/* SPDX-License-Identifier: Apache-2.0 */
/* Log-probabilities of prompts. The expected values come from requests for each prefix of the
 * prompt; the goldens compare their logits with transformers. */
#include <math.h>

#include "engine/engine_fixture.h"

static const char *const devices[] = {ENGINE_DEVICES};
enum { N_DEVICES = sizeof(devices) / sizeof(devices[0]), N_TOKENS = 90, TOP = 4 };

static int ids[N_TOKENS];

static void make_ids(int vocabulary)
{
    unsigned seed = 5;
    for (int i = 0; i < N_TOKENS; i++) {
        seed = seed * 1103515245u + 12345u;
        ids[i] = (int)((seed >> 8) % (unsigned)vocabulary);
    }
}

static ey_request request_of(int n)
{
    ey_request r = ey_request_defaults();
    r.ids = ids;
    r.n_ids = (size_t)n;
    r.max_tokens = 1;
    r.ignore_eos = true;
    return r;
}

static ey_answer ask_for(ey_engine *engine, const ey_request *request)
{
    ey_answer answer;
    ey_err e;
    if (!ey_ask(engine, request, &answer, &e)) fail_msg("%s", e.text);
    return answer;
}

static ey_answer ask_scored(ey_engine *engine, int n, int top)
{
    ey_request r = request_of(n);
    r.prompt_logprobs = true;
    r.top_prompt_logprobs = top;
    return ask_for(engine, &r);
}

/* Log-probability from the last computed row, in double. */
static double logprob_in_double(const float *logits, int n, int id)
{
    double most = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++)
        most = fmax(most, (double)logits[i]);
    for (int i = 0; i < n; i++)
        sum += exp((double)logits[i] - most);
    return (double)logits[id] - most - log(sum);
}

static int rank_of(const float *logits, int n, int id)
{
    int rank = 1;
    for (int i = 0; i < n; i++)
        rank += logits[i] > logits[id] || (logits[i] == logits[id] && i < id);
    return rank;
}

static void check_token(ey_engine *engine, const ey_answer *scored, int i)
{
    const int n = engine->devices.model.text.vocab_size;
    struct backend *be = engine->devices.be;
    float *logits = engine->buffers.host.logits;
    const ey_token_logprobs *got = &scored->prompt_logprobs[i];
    ey_request r = request_of(i);
    r.top_logprobs = TOP;
    r.no_prefix_cache = true;
    ey_answer before = ask_for(engine, &r);
    be->ops->memory->read_logits(be, logits, engine->buffers.logits, (size_t)n);
    assert_int_equal(got->chosen.id, ids[i]);
    assert_int_equal(scored->prompt_ranks[i], rank_of(logits, n, ids[i]));
    const double want = logprob_in_double(logits, n, ids[i]);
    if (!(fabs((double)got->chosen.logprob - want) < 1e-5))
        fail_msg("token %d: %.9g, and %.9g by itself", i, (double)got->chosen.logprob, want);
    assert_int_equal(got->n_top, TOP);
    for (int k = 0; k < TOP; k++) { /* bit-identical: rows do not depend on the others of a step */
        assert_int_equal(got->top[k].id, before.logprobs[0].top[k].id);
        assert_true(got->top[k].logprob == before.logprobs[0].top[k].logprob);
    }
    ey_answer_free(&before);
}

static void check_scores(const char *kind, const char *device)
{
    ey_engine *engine = engine_open(kind, device, 1, 256);
    make_ids(engine->devices.model.text.vocab_size);
    engine_set_rows(engine, 32, 32); /* three chunks */
    ey_answer scored = ask_scored(engine, N_TOKENS, TOP);
    assert_int_equal(scored.n_prompt_logprobs, N_TOKENS);
    assert_int_equal(scored.prompt_logprobs[0].chosen.id, ids[0]);
    assert_true(isnan(scored.prompt_logprobs[0].chosen.logprob));
    assert_int_equal(scored.prompt_logprobs[0].n_top, 0);
    assert_int_equal(scored.prompt_ranks[0], 0);
    for (int i = 1; i < N_TOKENS; i++)
        if (i < 4 || i % 7 == 0 || i == N_TOKENS - 1) check_token(engine, &scored, i);
    ey_answer_free(&scored);
    assert_at_rest(engine);
    ey_engine_close(&engine);
}

static void scores_of_every_checkpoint(void **state)
{
    (void)state;
    for (int d = 0; d < N_DEVICES; d++) {
        check_scores("tiny-qwen3-bf16", devices[d]);
        check_scores("tiny-gqa4-fp8", devices[d]);
    }
}

static double sum_of(const ey_answer *a)
{
    double sum = 0;
    for (size_t i = 1; i < a->n_prompt_logprobs; i++)
        sum += (double)a->prompt_logprobs[i].chosen.logprob;
    return sum;
}

/* Cached rows are computed again, and computed rows are cached. */
static void nothing_comes_from_the_cache(void **state)
{
    (void)state;
    ey_engine *engine = engine_open("tiny-qwen3-bf16", "cpu", 1, 256);
    make_ids(engine->devices.model.text.vocab_size);
    ey_request plain = request_of(N_TOKENS);
    ey_answer first = ask_scored(engine, N_TOKENS, 0), cached = ask_for(engine, &plain),
              again = ask_scored(engine, N_TOKENS, 20);
    assert_int_equal(first.cached_tokens, 0);
    assert_int_equal(cached.cached_tokens, KV_BLOCK);
    assert_null(cached.prompt_logprobs);
    assert_int_equal(again.cached_tokens, 0);
    assert_int_equal(first.prompt_logprobs[5].n_top, 0);
    assert_int_equal(again.prompt_logprobs[5].n_top, 20);
    assert_true(sum_of(&first) == sum_of(&again));
    assert_int_equal(first.tokens[0], cached.tokens[0]);
    assert_int_equal(first.tokens[0], again.tokens[0]);
    ey_answer_free(&first);
    ey_answer_free(&cached);
    ey_answer_free(&again);
    ey_engine_close(&engine);
}

static void one_token_has_none(void **state)
{
    (void)state;
    ey_engine *engine = engine_open("tiny-qwen3-bf16", "cpu", 1, 64);
    make_ids(engine->devices.model.text.vocab_size);
    ey_answer one = ask_scored(engine, 1, 3);
    assert_int_equal(one.n_prompt_logprobs, 1);
    assert_int_equal(one.prompt_ranks[0], 0);
    ey_answer_free(&one);
    ey_engine_close(&engine);
}

static void refused(void **state)
{
    (void)state;
    ey_engine *engine = engine_open("tiny-qwen3-bf16", "cpu", 1, 64);
    static const int bad[] = {-1, 21};
    make_ids(engine->devices.model.text.vocab_size);
    for (size_t i = 0; i < 2; i++) {
        ey_request r = request_of(3);
        ey_answer answer;
        ey_err e;
        r.prompt_logprobs = true;
        r.top_prompt_logprobs = bad[i];
        assert_false(ey_ask(engine, &r, &answer, &e));
        assert_int_equal(e.code, EY_BAD_REQUEST);
        assert_non_null(strstr(e.text, "top_prompt_logprobs"));
        ey_answer_free(&answer);
    }
    ey_engine_close(&engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_of_every_checkpoint),
        cmocka_unit_test(nothing_comes_from_the_cache),
        cmocka_unit_test(one_token_has_none),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
