/* SPDX-License-Identifier: Apache-2.0 */
/* GEMV kernels, fast and fallback, against loops in double precision. A token's result does not
 * depend on the other tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "kernels/cuda/matmul/gemv_m1_launch.h"
#include "kernels/cuda/matmul/gemv_launch.h"
#include "kernels/cuda/matmul/matmul_fallback_launch.h"
#include "cuda/emulated.h"
#include "cuda/kernel_test_matrices.h"

enum { TOKENS = GEMV_TOKENS, X_ROWS = TOKENS + 3 };

struct product {
    int dtype, out, norm;
    int rows[MAX_SEGMENTS]; /* 0: no more segments */
    int k;
    int bias, gather;
    float size; /* scale of x */
};

struct problem {
    struct product p;
    struct matmul_args args;
    struct matrix w[MAX_SEGMENTS];
    double *x; /* [TOKENS, k] after the norm */
    float *y_before;
    int n_rows;
    int32_t gather[TOKENS];
};

static double value_of_x(const struct problem *p, int row, int column)
{
    size_t at = (size_t)row * (size_t)p->args.ldx + (size_t)column;
    return p->args.norm || p->args.x_f32 ? (double)((const float *)p->args.x)[at]
                                         : (double)bf16_float(((const bf16 *)p->args.x)[at]);
}

static void fill_x(struct problem *p)
{
    int k = p->p.k, ldx = k + 16;
    float *f32 = random_floats((size_t)X_ROWS * (size_t)ldx, p->p.size);
    bf16 *half = aligned((size_t)X_ROWS * (size_t)ldx * 2);
    for (int i = 0; i < X_ROWS * ldx; i++) {
        if (i % 7 == 0) f32[i] *= 1e-3f;
        if (i % 997 == 3) f32[i] *= 100;
        if (i % ldx >= k) f32[i] = NAN; /* padding must not be read */
        half[i] = i % ldx < k ? float_bf16(f32[i]) : 0x7fff;
    }
    p->args.ldx = ldx;
    p->args.x = p->p.norm ? (void *)f32 : (void *)half;
    p->args.x_f32 = p->p.norm;
    p->args.norm = p->p.norm ? random_floats((size_t)k, 2) : NULL;
    p->args.eps = 1e-6f;
    for (int i = 0; i < TOKENS; i++)
        p->gather[i] = (i * 5 + 2) % X_ROWS;
}

static void norm_x(struct problem *p)
{
    int k = p->p.k;
    p->x = aligned(sizeof(double) * TOKENS * (size_t)k);
    for (int i = 0; i < TOKENS; i++) {
        int row = p->p.gather ? p->gather[i] : i;
        double squares = 0;
        for (int c = 0; c < k; c++)
            squares += value_of_x(p, row, c) * value_of_x(p, row, c);
        double scale = 1 / sqrt(squares / k + (double)p->args.eps);
        for (int c = 0; c < k; c++)
            p->x[i * k + c] = value_of_x(p, row, c) *
                              (p->p.norm ? scale * (double)p->args.norm[c] : 1);
    }
}

/* Adds row scales to the block scales of every other FP8 matrix. */
static void add_row_scales(struct matrix *m)
{
    if (m->dev.dtype != K_FP8 || random_bits() % 2) return;
    float *scale = random_floats((size_t)m->dev.rows, 1);
    for (int r = 0; r < m->dev.rows; r++)
        for (int c = 0; c < m->dev.cols; c++)
            m->value[(size_t)r * (size_t)m->dev.cols + (size_t)c] *= (double)scale[r];
    m->dev.row_scale = scale;
}

static struct problem problem_make(const struct product *product, int packed)
{
    struct problem p = {.p = *product};
    p.args.k = product->k;
    p.args.epilogue = product->out;
    for (int i = 0; i < MAX_SEGMENTS && product->rows[i]; i++) {
        p.w[i] = random_matrix(product->dtype, product->rows[i], product->k, packed);
        add_row_scales(&p.w[i]);
        p.args.segment[i].w = p.w[i].dev;
        if (product->bias) p.args.segment[i].bias = random_floats((size_t)product->rows[i], 1);
        p.args.n_segments = i + 1;
        p.n_rows += product->rows[i];
    }
    fill_x(&p);
    norm_x(&p);
    p.y_before = random_floats((size_t)TOKENS * (size_t)p.n_rows, 1);
    return p;
}

/* The expected value, and the tolerance for F32 sums of rounded products. */
static double expected_dot(const struct problem *p, int segment, int row, int token,
                           double *tolerance)
{
    const double *w = p->w[segment].value + (size_t)row * (size_t)p->p.k,
                 *x = p->x + (size_t)token * (size_t)p->p.k;
    double sum = 0, squares = 0;
    for (int c = 0; c < p->p.k; c++) {
        sum += w[c] * x[c];
        squares += w[c] * x[c] * w[c] * x[c];
    }
    double rounded_x = p->p.norm              ? (p->p.dtype == K_BF16 ? 0x1p-8 : 0x1p-10)
                       : p->p.dtype == K_INT4 ? 0x1p-11
                                              : 0x1p-18; /* int4: weights are rounded */
    *tolerance = 4 * rounded_x * sqrt(squares) + 1e-6 * fabs(sum) + 1e-30;
    return sum;
}

static double silu(double v)
{
    return v / (1 + exp(-v));
}

static void check_values(const struct problem *p, const float *f32, const bf16 *act, int n)
{
    int at = 0;
    for (int s = 0; s < (p->p.out == EPI_SILU ? 1 : p->args.n_segments); at += p->p.rows[s++]) {
        for (int i = 0; i < n; i++) {
            for (int r = 0; r < p->p.rows[s]; r++) {
                double tolerance, other_tolerance, want = expected_dot(p, s, r, i, &tolerance);
                size_t place = (size_t)i * (size_t)p->n_rows + (size_t)(at + r);
                if (p->p.out == EPI_SILU) {
                    double up = expected_dot(p, 1, r, i, &other_tolerance);
                    tolerance = 1.1 * tolerance * fabs(up) + other_tolerance * fabs(silu(want)) +
                                tolerance * other_tolerance;
                    want = silu(want) * up;
                    tolerance += fabs(want) * 0x1p-8;
                }
                if (p->args.segment[s].bias) want += (double)p->args.segment[s].bias[r];
                if (p->p.out == EPI_ADD) {
                    want += (double)p->y_before[place];
                    tolerance += 1e-6;
                }
                if (p->p.out == EPI_GELU_TANH || p->p.out == EPI_GELU_ERF || p->p.out == EPI_BF16) {
                    double tanh_in = sqrt(2 / acos(-1.0)) * (want + 0.044715 * want * want * want);
                    if (p->p.out == EPI_GELU_TANH) want = 0.5 * want * (1 + tanh(tanh_in));
                    if (p->p.out == EPI_GELU_ERF) want = 0.5 * want * (1 + erf(want / sqrt(2)));
                    tolerance = 1.2 * tolerance + fabs(want) * 0x1p-8;
                }
                double got = act ? (double)bf16_float(act[place]) : (double)f32[place];
                if (!(fabs(got - want) <= tolerance))
                    fail_msg(
                        "dtype %d out %d k %d n %d: segment %d row %d token %d is %g, not %g +- %g",
                        p->p.dtype, p->p.out, p->p.k, n, s, r, i, got, want, tolerance);
            }
        }
    }
}

static int is_act(int out)
{
    return out != EPI_F32 && out != EPI_ADD;
}

/* Runs the matmul for n tokens; y is [n, n_rows]. Checks the result. */
static void *run(struct problem *p, int n, const struct launch *shape)
{
    size_t values = (size_t)n * (size_t)p->n_rows;
    void *y = aligned(values * 4);
    if (!is_act(p->p.out)) memcpy(y, p->y_before, values * 4);
    struct matmul_args *a = &p->args;
    int at = 0;
    a->n = n;
    if (p->p.gather) a->gather = p->gather;
    for (int s = 0; s < a->n_segments; at += p->p.rows[s++]) {
        a->segment[s].y = is_act(p->p.out) ? (void *)((bf16 *)y + at) : (void *)((float *)y + at);
        a->segment[s].ldy = p->n_rows;
    }
    const unsigned block[3] = {shape->block, 1, 1};
    assert_true(
        emulator_launch(gpu_kernel_name(shape->kernel), a, shape->grid, block, shape->shared));
    check_values(p, y, is_act(p->p.out) ? y : NULL, n);
    return y;
}

static void check_same(const struct problem *p, const void *few, int n, const void *many)
{
    size_t size = is_act(p->p.out) ? 2 : 4;
    for (int i = 0; i < n; i++) {
        int width = p->p.out == EPI_SILU ? p->p.rows[0] : p->n_rows;
        assert_memory_equal((const char *)few + (size_t)i * (size_t)p->n_rows * size,
                            (const char *)many + (size_t)i * (size_t)p->n_rows * size,
                            (size_t)width * size);
    }
}

static const struct product fast[] = {
    {K_FP8, EPI_F32, 1, {48, 16, 32}, 2048, 0, 0, 1},
    {K_FP8, EPI_F32, 1, {40, 7, 144}, 328, 1, 0, 1},
    {K_FP8, EPI_F32, 1, {16}, 4160, 0, 1, 1e6f},
    {K_FP8, EPI_SILU, 1, {160, 160}, 512, 0, 0, 1},
    {K_FP8, EPI_SILU, 1, {17, 17}, 2560, 0, 0, 1},
    {K_FP8, EPI_ADD, 0, {136}, 256, 1, 0, 1},
    {K_FP8, EPI_ADD, 0, {32}, 6144, 0, 0, 3e4f},
    {K_FP8, EPI_ADD, 0, {16}, 9728, 0, 0, 1e-20f},
    {K_FP8, EPI_ADD, 0, {5}, 8, 0, 0, 1},
    {K_BF16, EPI_F32, 1, {48, 16, 32}, 2048, 0, 0, 1},
    {K_BF16, EPI_F32, 1, {300}, 264, 0, 1, 1},
    {K_BF16, EPI_F32, 1, {16}, 4128, 0, 0, 1},
    {K_BF16, EPI_SILU, 1, {40, 40}, 1024, 0, 0, 1},
    {K_BF16, EPI_ADD, 0, {32}, 2560, 1, 0, 1},
    {K_BF16, EPI_ADD, 0, {16}, 9728, 0, 0, 1},
    {K_INT8, EPI_F32, 1, {400}, 2048, 0, 1, 1},
    {K_INT8, EPI_F32, 1, {90}, 200, 0, 0, 1},
    {K_INT4, EPI_F32, 1, {48, 16, 32}, 2048, 0, 0, 1},
    {K_INT4, EPI_F32, 1, {40, 7, 144}, 352, 1, 0, 1},
    {K_INT4, EPI_F32, 1, {16}, 4160, 0, 1, 1e6f},
    {K_INT4, EPI_SILU, 1, {160, 160}, 512, 0, 0, 1},
    {K_INT4, EPI_SILU, 1, {17, 17}, 2560, 0, 0, 1},
    {K_INT4, EPI_ADD, 0, {136}, 256, 1, 0, 1},
    {K_INT4, EPI_ADD, 0, {16}, 9728, 0, 0, 1e-20f},
    {K_INT4, EPI_ADD, 0, {5}, 32, 0, 0, 1},
    {K_INT4, EPI_ADD, 0, {32}, 6080, 0, 0, 3e4f},
};

static void fast_kernels_multiply(void **state)
{
    (void)state;
    static const int counts[] = {1, 2, 3, 5, 7, 8};
    for (size_t i = 0; i < sizeof(fast) / sizeof(fast[0]); i++) {
        struct problem p = problem_make(&fast[i], 1);
        void *most = NULL;
        for (int c = (int)(sizeof(counts) / sizeof(counts[0])) - 1; c >= 0; c--) {
            p.args.n = counts[c];
            struct launch shape = gemv_launch(
                &p.args, c % 2 ? 132 : 3,
                (c % 3 ? 228 : 100) << 10); /* three SMs: blocks loop over row blocks */
            if (!shape.kernel)
                fail_msg("no kernel for dtype %d out %d k %d n %d", p.p.dtype, p.p.out, p.p.k,
                         counts[c]);
            void *y = run(&p, counts[c], &shape);
            if (most)
                check_same(&p, y, counts[c], most);
            else
                most = y;
        }
    }
}

/* gemv_m1 handles the cases of FP8 and int4 without a gather. */
static void kernels_of_one_token_multiply(void **state)
{
    (void)state;
    int taken = 0;
    for (size_t i = 0; i < sizeof(fast) / sizeof(fast[0]); i++) {
        struct problem p = problem_make(&fast[i], 1);
        p.args.n = 1;
        p.args.gather = p.p.gather ? p.gather : NULL;
        struct launch shape = gemv_m1_launch(&p.args);
        const bool wanted = !p.p.gather && (fast[i].dtype == K_FP8 || fast[i].dtype == K_INT4);
        assert_int_equal(shape.kernel != GPU_NO_KERNEL, wanted);
        if (!wanted) continue;
        run(&p, 1, &shape);
        taken++;
    }
    assert_int_equal(taken, 16);
}

static const struct product plain[] = {
    {K_F32, EPI_F32, 1, {5, 9}, 37, 1, 1, 1},     {K_F16, EPI_BF16, 0, {20}, 64, 1, 0, 1},
    {K_FP8, EPI_ADD, 0, {140}, 150, 1, 0, 1},     {K_INT8, EPI_F32, 1, {33}, 72, 0, 1, 1},
    {K_BF16, EPI_SILU, 1, {12, 12}, 40, 0, 0, 1}, {K_BF16, EPI_GELU_TANH, 0, {12}, 40, 1, 0, 1},
    {K_BF16, EPI_GELU_ERF, 0, {12}, 40, 1, 0, 1},
};

static void fallback_multiplies(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        for (int packed = 0; packed < 2; packed++) {
            struct problem p = problem_make(&plain[i], packed);
            p.args.n = 6;
            struct launch shape = matmul_fallback_launch(&p.args);
            run(&p, 6, &shape);
        }
    }
}

static void fallback_reads_nan(void **state)
{
    (void)state;
    struct product product = {K_FP8, EPI_F32, 0, {3}, 8, 0, 0, 1};
    struct problem p = problem_make(&product, 0);
    float y[3];
    ((uint8_t *)(uintptr_t)p.w[0].dev.data)[8 + 2] = 0xff;
    p.args.n = 1;
    p.args.segment[0].y = y;
    p.args.segment[0].ldy = 3;
    struct launch shape = matmul_fallback_launch(&p.args);
    const unsigned block[3] = {shape.block, 1, 1};
    assert_true(
        emulator_launch(gpu_kernel_name(shape.kernel), &p.args, shape.grid, block, shape.shared));
    assert_true(!isnan(y[0]) && isnan(y[1]) && !isnan(y[2]));
}

static void other_products_have_no_fast_kernel(void **state)
{
    (void)state;
    struct problem p = problem_make(&fast[0], 1);
    p.args.n = GEMV_TOKENS + 1;
    assert_int_equal(gemv_launch(&p.args, 132, 100 << 10).kernel, GPU_NO_KERNEL);
    p.args.n = 1;
    p.args.k = 2044;
    assert_int_equal(gemv_launch(&p.args, 132, 100 << 10).kernel, GPU_NO_KERNEL);
    p.args.k = 2048;
    p.args.segment[1].w.packed = 0;
    assert_int_equal(gemv_launch(&p.args, 132, 100 << 10).kernel, GPU_NO_KERNEL);
    p.args.segment[1].w.packed = 1;
    p.args.epilogue = EPI_GELU_ERF;
    assert_int_equal(gemv_launch(&p.args, 132, 100 << 10).kernel, GPU_NO_KERNEL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(fast_kernels_multiply, free_all),
        cmocka_unit_test_teardown(kernels_of_one_token_multiply, free_all),
        cmocka_unit_test_teardown(fallback_multiplies, free_all),
        cmocka_unit_test_teardown(fallback_reads_nan, free_all),
        cmocka_unit_test_teardown(other_products_have_no_fast_kernel, free_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
