/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler and stop texts on logits made by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/sample/sampler.h"
#include "engine/request/stop_strings.h"

enum { VOCABULARY = 8, DRAWS = 20000 };

struct fixture {
    struct arena arena;
    struct sampler_scratch scratch;
    struct sampler sampler;
};

static void open_fixture(struct fixture *f)
{
    ey_err e;
    *f = (struct fixture){0};
    assert_true(sampler_scratch_open(&f->scratch, &f->arena, VOCABULARY, &e));
    assert_true(sampler_open(&f->sampler, &f->scratch, &f->arena, VOCABULARY, &e));
}

/* The share of each id in many draws; each draw is the first token of a request with another seed.
 */
static void shares_of(double share[VOCABULARY], const float *logits, ey_sampling options,
                      const int32_t *prompt, size_t n_prompt)
{
    struct fixture f;
    open_fixture(&f);
    memset(share, 0, VOCABULARY * sizeof(*share));
    for (int i = 0; i < DRAWS; i++) {
        options.seed = (uint64_t)i;
        sampler_start(&f.sampler, &options, prompt, n_prompt);
        share[sampler_sample(&f.sampler, logits, NULL)] += 1.0 / DRAWS;
    }
    arena_free(&f.arena);
}

/* The probabilities whose logarithms are the logits. */
static const double odds[VOCABULARY] = {0.05, 0.4, 0.02, 0.2, 0.2, 0.08, 0.04, 0.01};

static void fill_logits(float *logits)
{
    for (int i = 0; i < VOCABULARY; i++)
        logits[i] = (float)log(odds[i]);
}

static void filters_keep_what_they_say(void **state)
{
    (void)state;
    const ey_sampling all = {.temperature = 1, .top_p = 1, .repetition_penalty = 1};
    static const struct {
        const char *name;
        float temperature, top_p, min_p;
        int top_k;
        unsigned kept; /* bit mask of ids */
    } rows[] = {
        {"all", 1, 1, 0, 0, 0xff},
        {"top_k 1", 1, 1, 0, 1, 0x02},
        {"top_k 2 keeps the tie of the second", 1, 1, 0, 2, 0x1a},
        {"top_k 4", 1, 1, 0, 4, 0x3a},
        {"top_k of the whole vocabulary", 1, 1, 0, VOCABULARY, 0xff},
        {"top_p 0.39: the first reaches it", 1, 0.39f, 0, 0, 0x02},
        {"top_p 0.41", 1, 0.41f, 0, 0, 0x0a},
        {"top_p 0.79", 1, 0.79f, 0, 0, 0x1a},
        {"top_p 0.87", 1, 0.87f, 0, 0, 0x3a},
        {"top_p smaller than any", 1, 1e-6f, 0, 0, 0x02},
        {"top_p 0", 1, 0, 0, 0, 0x02},
        {"min_p 0.49", 1, 1, 0.49f, 0, 0x1a},
        {"min_p 0.15", 1, 1, 0.15f, 0, 0x3a},
        {"top_k 4, then top_p of what is left (0.4/0.88 < 0.5)", 1, 0.5f, 0, 4, 0x0a},
        {"temperature 0.5 sharpens before top_p", 0.5f, 0.6f, 0, 0, 0x02},
        {"greedy", 0, 1, 0, 0, 0x02},
        {"too cold to divide by", 1e-38f, 1, 0, 0, 0x02},
    };
    float logits[VOCABULARY];
    fill_logits(logits);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ey_sampling o = all;
        double share[VOCABULARY], sum = 0;
        o.temperature = rows[i].temperature;
        o.top_p = rows[i].top_p;
        o.min_p = rows[i].min_p;
        o.top_k = rows[i].top_k;
        shares_of(share, logits, o, NULL, 0);
        double power = o.temperature > 1e-3f ? 1 / (double)o.temperature : 1;
        for (int id = 0; id < VOCABULARY; id++)
            if (rows[i].kept >> id & 1) sum += pow(odds[id], power);
        for (int id = 0; id < VOCABULARY; id++) {
            double want = rows[i].kept >> id & 1 ? pow(odds[id], power) / sum : 0;
            /* five standard deviations of a share of DRAWS draws */
            if (fabs(share[id] - want) > 5 * sqrt(want * (1 - want) / DRAWS) + 1e-12)
                fail_msg("%s: id %d has %.4f, not %.4f", rows[i].name, id, share[id], want);
        }
    }
}

static void penalties(void **state)
{
    (void)state;
    const int32_t prompt[] = {1, 7};
    float logits[VOCABULARY] = {0, 2, 0, 0, 0, 0, 0, -2};
    struct fixture f;
    ey_sampling o = ey_sampling_greedy();
    open_fixture(&f);
    o.repetition_penalty = 2; /* 2 / 2 = 1, -2 * 2 = -4 */
    sampler_start(&f.sampler, &o, prompt, 2);
    assert_int_equal(sampler_sample(&f.sampler, logits, NULL), 1);
    assert_true(f.scratch.scores[1] == 1 && f.scratch.scores[7] == -4 && f.scratch.scores[0] == 0);
    o = ey_sampling_greedy();
    o.presence_penalty = 1.5f;
    o.frequency_penalty = 0.25f;
    sampler_start(&f.sampler, &o, prompt, 2); /* the prompt does not count */
    static const int32_t picks[] = {1, 1, 0, 1, 2, 3, 4, 5, 6, 1};
    /* id 1: 2, then 0.25 (still best), then 0, a tie with id 0, which wins as the lower id and
     * falls to -1.75; id 1 wins the next tie and falls to -0.25, below 2 to 6 until each was picked
     * once */
    for (size_t i = 0; i < sizeof(picks) / sizeof(picks[0]); i++)
        assert_int_equal(sampler_sample(&f.sampler, logits, NULL), picks[i]);
    arena_free(&f.arena);
}

static void same_seed_same_draws(void **state)
{
    (void)state;
    float logits[VOCABULARY];
    struct fixture f;
    int32_t first[50];
    ey_sampling o = {.temperature = 2, .top_p = 1, .repetition_penalty = 1, .seed = 77};
    fill_logits(logits);
    open_fixture(&f);
    for (int round = 0; round < 3; round++) {
        int differ = 0;
        if (round == 2) o.seed = 78;
        sampler_start(&f.sampler, &o, NULL, 0);
        for (int i = 0; i < 50; i++) {
            int32_t id = sampler_sample(&f.sampler, logits, NULL);
            if (round == 0)
                first[i] = id;
            else
                differ += first[i] != id;
        }
        if (round == 1) assert_int_equal(differ, 0);
        if (round == 2) assert_true(differ > 10);
    }
    arena_free(&f.arena);
}

static void bad_options_are_named(void **state)
{
    (void)state;
    static const struct {
        ey_sampling o;
        const char *says;
    } rows[] = {
        {{.temperature = -1, .top_p = 1, .repetition_penalty = 1}, "temperature is -1"},
        {{.temperature = NAN, .top_p = 1, .repetition_penalty = 1}, "temperature"},
        {{.top_p = -0.5f, .repetition_penalty = 1}, "top_p is -0.5"},
        {{.top_p = 1.5f, .repetition_penalty = 1}, "top_p is 1.5"},
        {{.top_p = 1, .top_k = -1, .repetition_penalty = 1}, "top_k is -1"},
        {{.top_p = 1, .min_p = 2, .repetition_penalty = 1}, "min_p is 2"},
        {{.top_p = 1, .repetition_penalty = 0}, "repetition_penalty is 0"},
        {{.top_p = 1, .repetition_penalty = 1, .presence_penalty = 3}, "presence_penalty is 3"},
        {{.top_p = 1, .repetition_penalty = 1, .frequency_penalty = -3}, "frequency_penalty is -3"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ey_err e = {0};
        assert_false(sampling_check(&rows[i].o, &e));
        assert_int_equal(e.code, EY_BAD_REQUEST);
        if (!strstr(e.text, rows[i].says)) fail_msg("row %zu: %s", i, e.text);
    }
}

/* Texts are fed in pieces of every length. With two stop texts, a longer piece may hold both; then
 * the output may end before the one that begins first. */
static void stop_texts_across_pieces(void **state)
{
    (void)state;
    static const struct {
        const char *stop[3], *text, *out;
        bool stopped;
    } rows[] = {
        {{"STOP"}, "one two STOP three", "one two ", true},
        {{"STOP"}, "one ST two STO", "one ST two STO", false},
        {{"aab"}, "aaaab", "aa", true},
        {{"cd", "bcde"}, "abcdef", "ab", true},
        {{"\n\n"}, "a\nb\n\nc", "a\nb", true},
        {{"é"}, "caf\xc3\xa9!", "caf", true},
        {{"x"}, "", "", false},
        {{NULL}, "no stop texts", "no stop texts", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t n_stop = 0, n = strlen(rows[i].text);
        while (n_stop < 3 && rows[i].stop[n_stop])
            n_stop++;
        for (size_t piece = 1; piece <= n + 1; piece++) {
            struct stop_matcher s;
            struct buf out = buf_with_max(100);
            ey_err e;
            assert_true(stop_matcher_open(&s, rows[i].stop, n_stop, &e));
            buf_add_text(&out, "");
            for (size_t at = 0; at < n && !s.stopped; at += piece) {
                size_t give = stop_matcher_add(&s, rows[i].text + at,
                                               n - at < piece ? n - at : piece);
                buf_add(&out, s.held_back.data, give);
                stop_matcher_drop(&s, give);
            }
            if (!s.stopped && s.held_back.size) buf_add(&out, s.held_back.data, s.held_back.size);
            assert_int_equal(s.stopped, rows[i].stopped);
            if (piece == 1 || n_stop < 2) assert_string_equal(out.data, rows[i].out);
            buf_free(&out);
            stop_matcher_close(&s);
        }
    }
}

/* ---- from top-k logits ---- */

enum { LARGE_VOCABULARY = 300, ROUNDS = 4000 };

/* A pseudo-random number below n. */
static int number(uint64_t *state, int n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int)((*state >> 33) % (uint64_t)n);
}

static struct topk_logits best_of(const float *logits, int n)
{
    struct topk_logits best = {.logsumexp = 0};
    int count = 0;
    for (int id = 0; id < n; id++) {
        int at = count;
        while (at && logits[id] > best.token[at - 1].logit)
            at--;
        if (at == TOPK_LOGITS) continue;
        if (count < TOPK_LOGITS) count++;
        memmove(&best.token[at + 1], &best.token[at],
                (size_t)(count - 1 - at) * sizeof(best.token[0]));
        best.token[at] = (struct scored_token){logits[id], id};
    }
    for (; count < TOPK_LOGITS; count++)
        best.token[count] = (struct scored_token){-INFINITY, -1};
    return best;
}

static ey_sampling any_sampling(uint64_t *state)
{
    static const float temperatures[] = {0, 0, 0.3f, 1, 7, 100}, penalties[] = {1, 1, 1.3f, 0.8f},
                       subtracted[] = {0, 0, 0.5f, -0.5f}, shares[] = {1, 1, 0.9f, 0.4f};
    static const int top_k[] = {0, 1, 5, 20, 32, 33, 64, 65};
    return (ey_sampling){.temperature = temperatures[number(state, 6)],
                         .top_k = top_k[number(state, 8)],
                         .top_p = shares[number(state, 4)],
                         .min_p = number(state, 3) ? 0 : 0.05f,
                         .repetition_penalty = penalties[number(state, 4)],
                         .presence_penalty = subtracted[number(state, 4)],
                         .frequency_penalty = subtracted[number(state, 4)],
                         .seed = *state};
}

/* Kind 1 has many ties; kind 2 differs by a bit or two, which a temperature of 7 rounds away. */
static void any_logits(float *logits, int n, uint64_t *state)
{
    int kind = number(state, 4);
    for (int i = 0; i < n; i++) {
        float value = (float)number(state, 1 << 20) * 0x1p-16f - 8;
        if (kind == 1) value = (float)number(state, 12) - 6;
        if (kind == 2) value = 7 + (float)number(state, 5) * 0x1p-21f;
        if (kind == 3 && number(state, 3)) value = -INFINITY;
        logits[i] = value;
    }
}

/* Allows one in 2, 4 … 32 ids, and sometimes an end token outside the mask. */
static struct allowed any_mask(uint32_t *mask, int n, uint64_t *random)
{
    static const int end[] = {3};
    int one_of = 2 << number(random, 5);
    memset(mask, 0, ((size_t)n / 32 + 1) * sizeof(*mask));
    for (int i = 0; i < n; i++)
        if (i % 17 == 5 || number(random, one_of) == 0) mask[i / 32] |= 1u << (i % 32);
    return (struct allowed){mask, end, number(random, 2)};
}

static void topk_logits_decide_like_all(void **state)
{
    (void)state;
    static const int sizes[] = {LARGE_VOCABULARY, 65, 64, 20};
    uint64_t random = 1;
    int n_decided = 0, n_masked = 0, n_greedy = 0, n_greedy_decided = 0;
    static uint32_t mask[LARGE_VOCABULARY / 32 + 1];
    for (int round = 0; round < ROUNDS; round++) {
        int n = sizes[round % 4], n_prompt = number(&random, 30);
        struct fixture f = {0};
        struct sampler all, few;
        ey_err e;
        float logits[LARGE_VOCABULARY];
        int32_t prompt[30];
        assert_true(sampler_scratch_open(&f.scratch, &f.arena, n, &e) &&
                    sampler_open(&all, &f.scratch, &f.arena, n, &e) &&
                    sampler_open(&few, &f.scratch, &f.arena, n, &e));
        ey_sampling options = any_sampling(&random);
        for (int i = 0; i < n_prompt; i++)
            prompt[i] = number(&random, n);
        sampler_start(&all, &options, prompt, (size_t)n_prompt);
        sampler_start(&few, &options, prompt, (size_t)n_prompt);
        for (int step = 0; step < 6; step++) {
            int32_t id = -1, want;
            any_logits(logits, n, &random);
            const struct allowed some = any_mask(mask, n, &random),
                                 *allowed = round % 3 ? NULL : &some;
            struct topk_logits best = best_of(logits, n);
            bool plain = options.temperature < 1e-5f && options.repetition_penalty == 1 &&
                         options.presence_penalty == 0 && options.frequency_penalty == 0;
            bool decided = sampler_sample_topk(&few, &best, allowed, false, &id);
            want = sampler_sample(&all, logits, allowed);
            n_masked += decided && allowed;
            if (decided && id != want)
                fail_msg("round %d, step %d: %d instead of %d", round, step, id, want);
            if (!decided) sampler_record(&few, want);
            plain = plain && !allowed;
            n_decided += decided;
            n_greedy += plain;
            n_greedy_decided += plain && decided;
        }
        arena_free(&f.arena);
    }
    assert_true(n_decided > ROUNDS && n_masked > ROUNDS / 10);
    assert_true(n_greedy > 100 &&
                n_greedy_decided > n_greedy * 3 / 4); /* the rest has too many ties at the top */
}

/* With a grammar the sampler picks an allowed token, even if all their logits are -inf or NaN. */
static void forbidden_ids_are_never_picked(void **state)
{
    (void)state;
    static const float impossible[] = {-INFINITY, NAN, -3e38f};
    static const float temperatures[] = {0, 1e-5f, 1, 100};
    static const int top_k[] = {0, 1, 5};
    static const int end[] = {7};
    struct fixture f;
    open_fixture(&f);
    for (unsigned row = 0; row < 3 * 4 * 3 * 2; row++) {
        const ey_sampling options = {.temperature = temperatures[row % 4],
                                     .top_k = top_k[row / 4 % 3],
                                     .top_p = 1,
                                     .repetition_penalty = 1,
                                     .seed = row};
        const uint32_t mask = row / 36 ? 0x18 : 0; /* 3 and 4, or only the end */
        const struct allowed allowed = {&mask, end, row / 36 ? 0 : 1};
        float logits[VOCABULARY] = {1, 2, 3, 0, 0, 4, 5, 0};
        int32_t ids[TOPK_LOGITS];
        logits[3] = logits[4] = logits[7] = impossible[row / 12 % 3];
        sampler_start(&f.sampler, &options, NULL, 0);
        for (int i = 0; i < 8; i++) {
            int32_t id = sampler_sample(&f.sampler, logits, &allowed);
            int n = sampler_topk_ids(&f.sampler, logits, &allowed, ids, TOPK_LOGITS);
            int32_t again = sampler_sample_rescored(&f.sampler, logits, ids, n);
            if (row / 36)
                assert_true((id == 3 || id == 4) && (again == 3 || again == 4));
            else
                assert_true(id == 7 && again == 7);
        }
    }
    arena_free(&f.arena);
}

/* End tokens are excluded until min_tokens with every sampler (all logits, top-k, rescored); until
 * then the GPU does not sample. Forced tokens count, too. */
static void end_tokens_wait(void **state)
{
    (void)state;
    static const int32_t ends[] = {5, 6};
    static const float temperatures[] = {0, 1};
    struct fixture f;
    open_fixture(&f);
    for (int row = 0; row < 2 * 3 * 2; row++) {
        const int forced = row / 6 * 2;
        const ey_sampling options = {.temperature = temperatures[row % 2],
                                     .top_k = 3,
                                     .top_p = 1,
                                     .repetition_penalty = 1,
                                     .seed = 7};
        const float logits[VOCABULARY] = {1, 2, 3, 0, 0, 24, 25, 0};
        struct topk_logits best = best_of(logits, VOCABULARY);
        int32_t ids[TOPK_LOGITS], id;
        sampler_start(&f.sampler, &options, NULL, 0);
        f.sampler.ends = ends;
        f.sampler.n_ends = 2;
        f.sampler.min_tokens = 4;
        for (int i = 0; i < forced; i++)
            sampler_record_forced(&f.sampler, 0);
        for (int i = 0; i < 8; i++) {
            assert_int_equal(sampler_gpu_can_sample(&f.sampler, false), i >= 4 - forced);
            if (row / 2 % 3 == 0) {
                id = sampler_sample(&f.sampler, logits, NULL);
            } else if (row / 2 % 3 == 1) {
                assert_true(sampler_sample_topk(&f.sampler, &best, NULL, false, &id));
            } else {
                int n = sampler_topk_ids(&f.sampler, logits, NULL, ids, TOPK_LOGITS);
                id = sampler_sample_rescored(&f.sampler, logits, ids, n);
            }
            assert_int_equal(id == 5 || id == 6, i >= 4 - forced);
        }
    }
    arena_free(&f.arena);
}

/* With an 8-bit head logits are approximate, so only the better half of the top-k logits is used.
 */
static void approximate_logits_decide_less(void **state)
{
    (void)state;
    struct fixture f = {0};
    ey_err e;
    float logits[LARGE_VOCABULARY];
    int32_t id;
    for (int i = 0; i < LARGE_VOCABULARY; i++)
        logits[i] = (float)i * -0.25f;
    assert_true(sampler_scratch_open(&f.scratch, &f.arena, LARGE_VOCABULARY, &e) &&
                sampler_open(&f.sampler, &f.scratch, &f.arena, LARGE_VOCABULARY, &e));
    struct topk_logits best = best_of(logits, LARGE_VOCABULARY);
    static const struct {
        float temperature;
        int top_k;
        bool exact, approximate;
    } rows[] = {{0, 0, true, true},   {1, 32, true, true},   {1, 33, true, false},
                {1, 63, true, false}, {1, 64, false, false}, {1, 0, false, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const ey_sampling options = {.temperature = rows[i].temperature,
                                     .top_k = rows[i].top_k,
                                     .top_p = 1,
                                     .repetition_penalty = 1};
        sampler_start(&f.sampler, &options, NULL, 0);
        assert_int_equal(sampler_sample_topk(&f.sampler, &best, NULL, false, &id), rows[i].exact);
        assert_int_equal(sampler_sample_topk(&f.sampler, &best, NULL, true, &id),
                         rows[i].approximate);
        assert_int_equal(sampler_needs_only_topk(&options, TOPK_LOGITS / 2), rows[i].approximate);
    }
    arena_free(&f.arena);
}

/* Candidates are picked by approximate logits and rescored; the result equals sampling from the
 * exact logits. */
static void rescored_candidates_decide_like_all(void **state)
{
    (void)state;
    static uint32_t mask[LARGE_VOCABULARY / 32 + 1];
    static const ey_logit_bias bias[] = {{3, 2}, {17, -100}, {3, 1.5f}, {40, 0.5f}};
    uint64_t random = 7;
    for (int round = 0; round < ROUNDS; round++) {
        struct fixture f = {0};
        struct sampler all, again;
        float logits[LARGE_VOCABULARY];
        int32_t ids[TOPK_LOGITS];
        ey_err e;
        int n = LARGE_VOCABULARY;
        assert_true(sampler_scratch_open(&f.scratch, &f.arena, n, &e) &&
                    sampler_open(&all, &f.scratch, &f.arena, n, &e) &&
                    sampler_open(&again, &f.scratch, &f.arena, n, &e));
        const ey_sampling options = any_sampling(&random);
        sampler_start(&all, &options, NULL, 0);
        sampler_start(&again, &options, NULL, 0);
        if (round % 2) {
            all.bias = again.bias = bias;
            all.n_bias = again.n_bias = 4;
        }
        for (int step = 0; step < 4; step++) {
            any_logits(logits, n, &random);
            const struct allowed some = any_mask(mask, n, &random),
                                 *allowed = round % 3 ? &some : NULL;
            int n_ids = sampler_topk_ids(&again, logits, allowed, ids, TOPK_LOGITS);
            for (int i = 0; i < n_ids; i++) {
                assert_true(allowed ? ids[i] == 3 || mask[ids[i] / 32] >> ids[i] % 32 & 1
                                    : isfinite(logits[ids[i]]));
                if (i)
                    assert_true(f.scratch.scores[ids[i]] < f.scratch.scores[ids[i - 1]] ||
                                (!(f.scratch.scores[ids[i]] > f.scratch.scores[ids[i - 1]]) &&
                                 ids[i] > ids[i - 1]));
                logits[ids[i]] += 1 + (float)number(&random, 1 << 10) * 0x1p-9f;
            }
            int32_t id = sampler_sample_rescored(&again, logits, ids, n_ids),
                    want = sampler_sample(&all, logits, allowed);
            if (id != want) fail_msg("round %d, step %d: %d instead of %d", round, step, id, want);
        }
        arena_free(&f.arena);
    }
}

static void bad_stop_texts(void **state)
{
    (void)state;
    const char *many[17], *empty[] = {""};
    struct stop_matcher s;
    ey_err e;
    for (int i = 0; i < 17; i++)
        many[i] = "x";
    assert_false(stop_matcher_open(&s, many, 17, &e));
    assert_non_null(strstr(e.text, "17"));
    stop_matcher_close(&s);
    assert_true(stop_matcher_open(&s, many, 16, &e));
    stop_matcher_close(&s);
    assert_false(stop_matcher_open(&s, empty, 1, &e));
    stop_matcher_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_keep_what_they_say),
        cmocka_unit_test(penalties),
        cmocka_unit_test(same_seed_same_draws),
        cmocka_unit_test(bad_options_are_named),
        cmocka_unit_test(stop_texts_across_pieces),
        cmocka_unit_test(bad_stop_texts),
        cmocka_unit_test(topk_logits_decide_like_all),
        cmocka_unit_test(forbidden_ids_are_never_picked),
        cmocka_unit_test(end_tokens_wait),
        cmocka_unit_test(approximate_logits_decide_less),
        cmocka_unit_test(rescored_candidates_decide_like_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
