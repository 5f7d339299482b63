/* SPDX-License-Identifier: Apache-2.0 */
/* Top-k logits of a row in exact order, and the log of the sum of exponentials, against sorting in
 * double precision. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "kernels/cuda/sampling/topk_launch.h"
#include "cuda/emulated.h"
#include "cuda/kernel_test_matrices.h"

enum kind { RANDOM, EQUAL, TIES, ASCENDING, ZEROS, ODD, CLOSE, KINDS };

static float logit_of(enum kind kind, int i)
{
    switch (kind) {
    case EQUAL: return 3.5f;
    case TIES: return (float)(random_bits() % 5);
    case ASCENDING: return (float)i * 1e-3f;
    case ZEROS: return random_bits() % 2 ? 0.0f : -0.0f;
    case ODD: return i % 11 == 0 ? NAN : i % 13 == 0 ? -INFINITY : random_float();
    case CLOSE: return 100.0f + 1e-5f * (float)(random_bits() % 1000);
    default: return 5 * random_float() + 5 * random_float() + 5 * random_float();
    }
}

static int is_better(const struct topk_logit *a, const struct topk_logit *b)
{
    if (isnan(a->logit) || isnan(b->logit))
        return isnan(a->logit) && isnan(b->logit) ? a->id < b->id : isnan(b->logit);
    return a->logit > b->logit || (a->logit >= b->logit && a->id < b->id);
}

static int compare(const void *a, const void *b)
{
    return is_better(a, b) ? -1 : 1;
}

static void check_row(const float *logits, int vocabulary, const struct topk_logit *best,
                      float log_sum)
{
    struct topk_logit *all = malloc(sizeof(*all) * (size_t)vocabulary);
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < vocabulary; i++) {
        all[i].logit = logits[i];
        all[i].id = i;
        if (!isnan(logits[i])) max = fmax(max, (double)logits[i]);
    }
    for (int i = 0; i < vocabulary; i++)
        if (!isnan(logits[i])) sum += (double)logits[i] >= max ? 1 : exp((double)logits[i] - max);
    qsort(all, (size_t)vocabulary, sizeof(*all), compare);
    for (int i = 0; i < TOPK; i++) {
        if (i >= vocabulary) {
            assert_int_equal(best[i].id, -1);
            assert_true(isinf(best[i].logit) && best[i].logit < 0);
        } else if (best[i].id != all[i].id ||
                   !(best[i].logit >= all[i].logit && best[i].logit <= all[i].logit) !=
                       isnan(all[i].logit)) {
            fail_msg("place %d of %d is %d (%g), not %d (%g)", i, vocabulary, best[i].id,
                     (double)best[i].logit, all[i].id, (double)all[i].logit);
        }
    }
    double want = max + log(sum);
    if (isinf(want))
        assert_true(isinf(log_sum) && (log_sum > 0) == (want > 0));
    else if (fabs((double)log_sum - want) > 2e-6 * (1 + fabs(want)))
        fail_msg("log sum %.8g, not %.8g", (double)log_sum, want);
    free(all);
}

static void run(const float *logits, int n, int vocabulary, int parts)
{
    struct topk_args a = {.logits = logits, .n = n, .vocabulary = vocabulary, .parts = parts};
    struct topk_logit *best = aligned((size_t)n * TOPK * sizeof(*best));
    float *log_sum = aligned((size_t)n * sizeof(float));
    a.part = aligned((size_t)(n * parts) * TOPK * sizeof(*a.part));
    a.part_sum = aligned((size_t)(n * parts) * 2 * sizeof(float));
    a.best = best;
    a.log_sum = log_sum;
    struct launch launches[] = {topk_part_launch(&a), topk_merge_launch(&a)};
    for (int i = 0; i < 2; i++) {
        const unsigned block[3] = {launches[i].block, 1, 1};
        assert_true(emulator_launch(gpu_kernel_name(launches[i].kernel), &a, launches[i].grid,
                                    block, launches[i].shared));
    }
    for (int i = 0; i < n; i++)
        check_row(logits + (size_t)i * (size_t)vocabulary, vocabulary, best + (size_t)i * TOPK,
                  log_sum[i]);
}

static void topk_is_found_in_order(void **state)
{
    (void)state;
    static const struct {
        int vocabulary, parts;
    } shapes[] = {{1, 64},    {63, 64},  {64, 4},     {65, 1},
                  {1000, 64}, {5000, 1}, {20000, 64}, {20000, 3}};
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        for (int kind = 0; kind < KINDS; kind++) {
            int n = 2, vocabulary = shapes[s].vocabulary;
            float *logits = aligned((size_t)(n * vocabulary) * sizeof(float));
            for (int i = 0; i < n * vocabulary; i++)
                logits[i] = logit_of((enum kind)kind, i % vocabulary);
            run(logits, n, vocabulary, shapes[s].parts);
        }
    }
}

static void a_whole_vocabulary(void **state)
{
    (void)state;
    enum { VOCABULARY = 151936 };
    float *logits = aligned(VOCABULARY * sizeof(float));
    for (int i = 0; i < VOCABULARY; i++)
        logits[i] = logit_of(RANDOM, i);
    run(logits, 1, VOCABULARY, 64);
}

static void infinities(void **state)
{
    (void)state;
    float *logits = aligned(200 * sizeof(float));
    for (int i = 0; i < 200; i++)
        logits[i] = -INFINITY;
    run(logits, 1, 200, 4);
    logits[150] = INFINITY;
    run(logits, 1, 200, 4);
    for (int i = 0; i < 200; i++)
        logits[i] = NAN;
    run(logits, 1, 200, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(topk_is_found_in_order, free_all),
        cmocka_unit_test_teardown(a_whole_vocabulary, free_all),
        cmocka_unit_test_teardown(infinities, free_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
