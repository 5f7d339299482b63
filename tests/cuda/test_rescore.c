/* SPDX-License-Identifier: Apache-2.0 */
/* Rescoring top-k logits with BF16 head rows: the host against doubles, and the GPU kernel against
 * the host, bit for bit and in order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/cuda/sampling/rescore_launch.h"
#include "backend/rescore.h"
#include "cuda/emulated.h"
#include "cuda/kernel_test_matrices.h"

#define EPS 1e-6f

static const int widths[] = {16, 64, 128, 144, 464, 2048, 2560, 4096, 4112, 8208};
enum { WIDTHS = sizeof(widths) / sizeof(widths[0]) };

/* Errors of sums of n F32 products: 2^-24 of each product, and 2^-24 of the sum for each level. */
static void the_host_against_doubles(void **state)
{
    (void)state;
    for (int w = 0; w < WIDTHS; w++) {
        int n = widths[w];
        float *x = random_floats((size_t)n, 3), *norm = random_floats((size_t)n, 1),
              *normed = aligned((size_t)n * sizeof(float));
        /* misaligned, as in a file */
        char *row = (char *)aligned((size_t)n * sizeof(bf16) + 1) + 1;
        double squares = 0, logit = 0, size = 0;
        for (int i = 0; i < n; i++)
            squares += (double)x[i] * (double)x[i];
        rescore_norm(normed, x, norm, (size_t)n, EPS);
        for (int i = 0; i < n; i++) {
            bf16 v = float_bf16(random_float());
            double want = (double)x[i] / sqrt(squares / n + (double)EPS) * (double)norm[i];
            assert_true(fabs((double)normed[i] - want) <= 1e-6 * fabs(want));
            memcpy(row + (size_t)i * sizeof(v), &v, sizeof(v));
            logit += want * (double)bf16_float(v);
            size += fabs(want * (double)bf16_float(v));
        }
        assert_true(fabs((double)rescore_dot(normed, row, (size_t)n) - logit) <= 1e-6 * size);
        rescore_norm(x, x, norm, (size_t)n, EPS); /* in place */
        assert_memory_equal(x, normed, (size_t)n * sizeof(float));
    }
}

static int compare(const void *a, const void *b)
{
    const struct topk_logit *x = a, *y = b;
    if (x->logit > y->logit || x->logit < y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* n rows of x in another order with `known` top-k logits each. Some head rows are equal, so that
 * ids break ties. */
static void rescored(int n, int cols, int known)
{
    enum { ROWS = 90, X_ROWS = 5, DIFFERENT = 80 };
    float *x = random_floats((size_t)(X_ROWS * cols), 2), *norm = random_floats((size_t)cols, 1),
          *normed = aligned((size_t)cols * sizeof(float));
    bf16 *rows = aligned((size_t)(ROWS * cols) * sizeof(bf16));
    struct topk_logit *best = aligned((size_t)n * TOPK * sizeof(*best)),
                      *want = aligned((size_t)n * TOPK * sizeof(*want));
    uint32_t *arrived = aligned((size_t)n * sizeof(*arrived));
    int32_t *gather = aligned((size_t)n * sizeof(*gather));
    for (int i = 0; i < ROWS * cols; i++)
        rows[i] = i < DIFFERENT * cols ? float_bf16(random_float()) : rows[i - DIFFERENT * cols];
    for (int r = 0; r < n; r++) {
        gather[r] = (r * 3 + 1) % X_ROWS;
        arrived[r] = 0;
        rescore_norm(normed, x + gather[r] * cols, norm, (size_t)cols, EPS);
        for (int i = 0; i < TOPK; i++) {
            int id = i < known ? (i * 7 + r) % ROWS : -1; /* each id once */
            best[r * TOPK + i] = (struct topk_logit){-INFINITY, id};
            want[r * TOPK + i] = (struct topk_logit){
                id < 0 ? -INFINITY : rescore_dot(normed, rows + id * cols, (size_t)cols), id};
        }
        qsort(want + r * TOPK, (size_t)known, sizeof(*want), compare);
    }
    struct rescore_args a = {best, arrived, rows, x, norm, gather, n, cols, EPS};
    struct launch l = rescore_launch(&a);
    const unsigned block[3] = {l.block, 1, 1};
    assert_true(emulator_launch(gpu_kernel_name(l.kernel), &a, l.grid, block, l.shared));
    for (int i = 0; i < n * TOPK; i++)
        if (best[i].id != want[i].id || memcmp(&best[i].logit, &want[i].logit, sizeof(float)) != 0)
            fail_msg("%d columns, place %d: %d (%.9g), not %d (%.9g)", cols, i, best[i].id,
                     (double)best[i].logit, want[i].id, (double)want[i].logit);
    for (int r = 0; r < n; r++)
        assert_int_equal(arrived[r], 0);
}

static void the_gpu_with_the_hosts_bits(void **state)
{
    (void)state;
    for (int w = 0; w < WIDTHS; w++)
        rescored(1 + w % 3, widths[w], TOPK);
    rescored(2, 464, 5);
    rescored(1, 464, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_host_against_doubles, free_all),
        cmocka_unit_test_teardown(the_gpu_with_the_hosts_bits, free_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
