/* SPDX-License-Identifier: Apache-2.0 */
/* Quantized matrices: each FP8 value is the nearest; each int4 value is the best for its scale, and
 * the scales' error is within 3 % of the best scales'; non-finite weights are refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tensor/dequantize.h"
#include "convert/quantize.h"

static struct pool *pool;

static int open_pool(void **state)
{
    ey_err e;
    (void)state;
    return pool_create(&pool, 2, &e) ? 0 : -1;
}

static int close_pool(void **state)
{
    (void)state;
    pool_destroy(&pool);
    return 0;
}

/* ---- matrices ---- */

static uint64_t seed = 1;

static double uniform(void) /* 0 .. 1 */
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) * 0x1p-53;
}

static double normal(void)
{
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += uniform();
    return sum - 6;
}

enum kind { NORMAL, HEAVY, ONE_SIDED, EQUAL, ZERO, TINY, KINDS };

static float value_of(enum kind kind)
{
    double v = normal();
    switch (kind) {
    case HEAVY: return (float)(0.02 * v * v * v);
    case ONE_SIDED: return (float)fabs(v);
    case EQUAL: return 0.75f;
    case ZERO: return 0;
    case TINY: return (float)(v * 1e-36);
    default: return (float)(0.02 * v);
    }
}

struct matrix {
    struct weight_recipe recipe;
    struct tensor asked, made;
    void *memory;
};

static struct matrix matrix_of(enum kind kind, int rows, int cols, enum dtype to, int group,
                               const float *importance)
{
    float *values = malloc((size_t)rows * (size_t)cols * sizeof(float));
    for (int i = 0; i < rows * cols; i++)
        values[i] = value_of(kind);
    struct matrix m = {
        .recipe = {.source = {.data = values, .dtype = DTYPE_F32, .rows = rows, .cols = cols},
                   .importance = importance}};
    m.asked = (struct tensor){
        .data = values, .dtype = to, .rows = rows, .cols = cols, .group_size = group};
    return m;
}

static bool make(struct matrix *m)
{
    m->asked.recipe = &m->recipe;
    assert_true(can_quantize(&m->recipe.source, m->asked.dtype, m->asked.group_size));
    m->memory = aligned_alloc(64, quantized_bytes(&m->asked));
    return quantize_weight(&m->made, m->memory, &m->asked, pool);
}

static void matrix_free(struct matrix *m)
{
    free((void *)m->recipe.source.data);
    free(m->memory);
}

static const float *row_of(const struct matrix *m, int row)
{
    return (const float *)m->recipe.source.data + (int64_t)row * m->recipe.source.cols;
}

/* ---- FP8 ---- */

static void every_code_is_the_nearest(void **state)
{
    static const int sizes[][2] = {{128, 128}, {130, 300}, {2, 1}, {257, 129}};
    float code_value[256];
    (void)state;
    for (int c = 0; c < 256; c++)
        elements_to_f32(&code_value[c], &(uint8_t){(uint8_t)c}, DTYPE_F8_E4M3, 1);
    for (size_t s = 0; s < 4; s++)
        for (int kind = 0; kind < KINDS; kind++) {
            struct matrix m = matrix_of((enum kind)kind, sizes[s][0], sizes[s][1], DTYPE_F8_E4M3, 0,
                                        NULL);
            assert_true(make(&m));
            const int64_t across = (m.made.cols + FP8_BLOCK - 1) / FP8_BLOCK;
            for (int r = 0; r < m.made.rows; r++)
                for (int c = 0; c < m.made.cols; c++) {
                    const float scale = m.made.scale[r / FP8_BLOCK * across + c / FP8_BLOCK],
                                x = row_of(&m, r)[c];
                    const uint8_t code =
                        ((const uint8_t *)m.made.data)[(int64_t)r * m.made.cols + c];
                    const double off = fabs((double)code_value[code] * scale - x);
                    assert_true(scale > 0 && isfinite(scale) && (code & 127) != 127);
                    for (int other = 0; other < 256; other++)
                        if ((other & 127) != 127)
                            assert_true(off <= fabs((double)code_value[other] * scale - x) +
                                                   1e-6 * fabs((double)x));
                }
            matrix_free(&m);
        }
}

/* The largest value of each block becomes the largest FP8 value. */
static void blocks_are_filled(void **state)
{
    (void)state;
    struct matrix m = matrix_of(HEAVY, 200, 200, DTYPE_F8_E4M3, 0, NULL);
    uint8_t most[4] = {0};
    assert_true(make(&m));
    for (int r = 0; r < 200; r++)
        for (int c = 0; c < 200; c++) {
            uint8_t code = ((const uint8_t *)m.made.data)[r * 200 + c] & 127,
                    *of_block = &most[r / 128 * 2 + c / 128];
            *of_block = code > *of_block ? code : *of_block;
        }
    for (int i = 0; i < 4; i++)
        assert_int_equal(most[i], 126);
    matrix_free(&m);
}

/* ---- int4 ---- */

static double noise_with(const float *x, const float *h, int n, double scale, int zero)
{
    double noise = 0;
    for (int i = 0; i < n; i++) {
        double d = nearbyint(x[i] / scale);
        d = d < -zero ? -zero : d > 15 - zero ? 15 - zero : d;
        noise += (h ? h[i] : 1) * (x[i] - d * scale) * (x[i] - d * scale);
    }
    return noise;
}

/* The least noise over a fine grid of scales and all zero points. */
static double least_noise(const float *x, const float *h, int n)
{
    double low = 0, high = 0, least = HUGE_VAL;
    for (int i = 0; i < n; i++) {
        low = fmin(low, x[i]);
        high = fmax(high, x[i]);
    }
    for (int zero = 0; zero < 16; zero++)
        for (double t = 8; t < 40; t *= 1.004) {
            double noise = noise_with(x, h, n, (high - low) / t, zero);
            least = noise < least ? noise : least;
        }
    return least;
}

static double nearest_rounding(const float *x, const float *h, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++)
        most = fmax(most, fabs((double)x[i]));
    return noise_with(x, h, n, most / 7.5, 8);
}

static void groups_are_near_the_best(void **state)
{
    (void)state;
    enum { ROWS = 19, COLS = 256 };
    float h[COLS];
    for (int i = 0; i < COLS; i++)
        h[i] = (float)(0.1 + 2 * uniform());
    for (int kind = 0; kind <= ONE_SIDED; kind++)
        for (int group = 32; group <= 128; group *= 2) {
            const float *importance = kind == HEAVY ? h : NULL;
            struct matrix m = matrix_of((enum kind)kind, ROWS, COLS, DTYPE_INT4, group, importance);
            double all = 0, least = 0, plain = 0;
            assert_true(make(&m));
            for (int r = 0; r < ROWS; r++)
                for (int first = 0; first < COLS; first += group) {
                    const float *x = row_of(&m, r) + first,
                                *of = importance ? importance + first : NULL;
                    float back[128];
                    double noise = 0;
                    dequantize_columns(back, &m.made, r, first, (size_t)group);
                    for (int i = 0; i < group; i++)
                        noise += (of ? of[i] : 1) * ((double)back[i] - x[i]) *
                                 ((double)back[i] - x[i]);
                    const float scale = weight_group_scale(&m.made, r, first / group);
                    assert_true(scale > 0 &&
                                noise <= noise_with(x, of, group, scale,
                                                    weight_group_zero(&m.made, r, first / group)) *
                                             (1 + 1e-4));
                    all += noise;
                    least += least_noise(x, of, group);
                    plain += nearest_rounding(x, of, group);
                }
            assert_true(all <= 1.03 * least); /* rounding scales to BF16 costs some */
            assert_true(all <= 0.85 * plain);
            matrix_free(&m);
        }
}

static void odd_groups(void **state)
{
    (void)state;
    struct matrix equal = matrix_of(EQUAL, 9, 64, DTYPE_INT4, 64, NULL),
                  zero = matrix_of(ZERO, 9, 64, DTYPE_INT4, 64, NULL);
    struct matrix tiny = matrix_of(TINY, 9, 64, DTYPE_INT4, 64, NULL);
    float back[64];
    assert_true(make(&equal) && make(&zero) && make(&tiny));
    for (int r = 0; r < 9; r++) {
        dequantize_columns(back, &equal.made, r, 0, 64);
        for (int i = 0; i < 64; i++)
            assert_true(fabsf(back[i] - 0.75f) <= 0.75f / 256);
        dequantize_columns(back, &zero.made, r, 0, 64);
        for (int i = 0; i < 64; i++)
            assert_true(back[i] == 0);
        assert_true(weight_group_scale(&zero.made, r, 0) > 0 &&
                    weight_group_scale(&tiny.made, r, 0) > 0);
    }
    matrix_free(&equal);
    matrix_free(&zero);
    matrix_free(&tiny);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    struct matrix m = matrix_of(HEAVY, 77, 384, DTYPE_INT4, 32, NULL);
    struct pool *one = NULL;
    ey_err e;
    assert_true(make(&m) && pool_create(&one, 1, &e));
    const size_t bytes = quantized_bytes(&m.asked);
    void *again = aligned_alloc(64, bytes);
    struct tensor other;
    memcpy(again, m.memory, bytes); /* also compares the padding between the parts */
    assert_true(quantize_weight(&other, again, &m.asked, one));
    assert_memory_equal(again, m.memory, bytes);
    free(again);
    pool_destroy(&one);
    matrix_free(&m);
}

/* ---- refused matrices ---- */

static void infinite_weights_are_refused(void **state)
{
    static const enum dtype kinds[] = {DTYPE_F8_E4M3, DTYPE_INT4};
    const float bad[] = {NAN, INFINITY, -INFINITY};
    (void)state;
    for (size_t k = 0; k < 2; k++)
        for (size_t b = 0; b < 3; b++) {
            struct matrix m = matrix_of(NORMAL, 40, 128, kinds[k], k ? 128 : 0, NULL);
            ((float *)m.recipe.source.data)[39 * 128 + 127] = bad[b];
            assert_false(make(&m));
            matrix_free(&m);
        }
}

static void invalid_recipes_are_refused(void **state)
{
    (void)state;
    const struct tensor float_rows = {.data = "", .dtype = DTYPE_BF16, .rows = 4, .cols = 96},
                        vector = {.data = "", .dtype = DTYPE_BF16, .rows = 1, .cols = 128};
    const struct tensor fp8 = {.data = "", .dtype = DTYPE_F8_E4M3, .rows = 4, .cols = 128};
    assert_true(can_quantize(&float_rows, DTYPE_INT4, 32) &&
                !can_quantize(&float_rows, DTYPE_INT4, 64));
    assert_true(!can_quantize(&vector, DTYPE_INT4, 128) &&
                !can_quantize(&vector, DTYPE_F8_E4M3, 0));
    assert_true(can_quantize(&fp8, DTYPE_INT4, 128) && !can_quantize(&fp8, DTYPE_F8_E4M3, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_is_the_nearest),
        cmocka_unit_test(blocks_are_filled),
        cmocka_unit_test(groups_are_near_the_best),
        cmocka_unit_test(odd_groups),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(infinite_weights_are_refused),
        cmocka_unit_test(invalid_recipes_are_refused),
    };
    return cmocka_run_group_tests(tests, open_pool, close_pool);
}
