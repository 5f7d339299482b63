/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls in int16: which FP8 matrices are eligible, and that every result is within the worst case
 * of the rounding steps, against float64. Covers few rows and many, every power of four that a
 * matrix may have, and sums close to 2^31. Also BF16 weights with rows of images. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/dequantize.h"
#include "backend/cpu/cpu_backend.h"
#include "kernels/direct_weight.h"
#include "kernels/kernel_tests.h"

enum {
    ROWS = 259,
    COLS = 448 /* the last block is only half full */,
    BLOCKS = (COLS + FP8_BLOCK - 1) / FP8_BLOCK,
    MOST = 131,
    NAN_E4M3 = 0x7f,
    MOST_POWERS = 7
};

struct matmul_fixture {
    struct backend *be;
    struct pool *pool;
    struct cpu_weight w;
    uint8_t quantized[ROWS * COLS];
    uint16_t bf16[ROWS * COLS];
    bool vision; /* BF16 weights and rows of an image */
    float value[ROWS * COLS], scale[(ROWS + FP8_BLOCK - 1) / FP8_BLOCK * BLOCKS], x[MOST * COLS],
        y[MOST * ROWS];
};

static bool open_int16_fixture(struct matmul_fixture *p, const struct cpu_kernels *k)
{
    const struct backend_limits limits = {
        .max_rows = MOST, .max_width = COLS, .max_keys = 64, .max_patches = 64};
    ey_err e;
    if (!pool_create(&p->pool, 2, &e)) return false;
    if (!backend_cpu_create(&p->be, p->pool, k->mask, &e)) return pool_destroy(&p->pool), false;
    if (!p->be->ops->memory->reserve(p->be, &limits, &e))
        return p->be->ops->destroy(p->be), pool_destroy(&p->pool), false;
    const struct tensor tensor = {.data = p->quantized,
                                  .dtype = DTYPE_F8_E4M3,
                                  .rows = ROWS,
                                  .cols = COLS,
                                  .scale = p->scale};
    p->w = direct_weight(p->be, &tensor, ROLE_TEXT);
    for (size_t i = 0; i < sizeof(p->scale) / sizeof(p->scale[0]); i++)
        p->scale[i] = 0.5f + (float)i;
    return true;
}

static void close_int16_fixture(struct matmul_fixture *p)
{
    p->be->ops->destroy(p->be);
    pool_destroy(&p->pool);
}

static void run_matmul(struct matmul_fixture *p, int n)
{
    const struct cpu_input in = {.x = p->x, .x_stride = COLS, .n = n, .width = COLS};
    const struct cpu_linear linear = {&p->w, NULL, p->y, ROWS};
    cpu_matmul((struct cpu *)p->be, &in, &linear, 1, CPU_STORE);
}

/* ---- eligibility ---- */

/* Returns the eligibility of a matrix that is filled with `quantized`, except that block 1 of the
 * first rows is filled with `other`, where one value is `one`. */
static int eligibility_of(struct matmul_fixture *p, uint8_t quantized, uint8_t other, uint8_t one)
{
    for (int i = 0; i < ROWS * COLS; i++)
        p->quantized[i] = i / COLS < FP8_BLOCK && i % COLS / FP8_BLOCK == 1 ? other : quantized;
    p->quantized[5 * COLS + FP8_BLOCK + 9] = one;
    p->w.m.int16 = CPU_INT16_UNKNOWN;
    run_matmul(p, 1);
    return p->w.m.int16;
}

static bool check_choice(struct matmul_fixture *p, uint64_t seed)
{
    (void)seed;
    static const struct {
        uint8_t code, other, one;
        int known;
    } cases[] = {{0x7e, 0xfe, 0x7e, 1},
                 {0x6f, 0x6f, 0x6f, 1},
                 {0x6e, 0x6e, 0x6e, 2},
                 {0x58, 0xd8, 0x58, 3},
                 {7, 7, 7, 8},
                 {1, 1, 1, 8}, /* the largest supported power */
                 {0x7e, 0, 0, 1},
                 {0, 0, 0, 8}, /* zeros do not count as small */
                 {0x7e, 0x60, 0x60, 1},
                 {0x7e, 0x5f, 0x5f, CPU_INT16_NO},
                 {0x7e, 0x30, 0x7e, 1},
                 {0x58, 0x39, 0x39, CPU_INT16_NO},
                 {0x58, 0x40, 0x40, 3},
                 {0x7e, 0x7e, NAN_E4M3, CPU_INT16_NO},
                 {0x20, 0x20, 0x80 | NAN_E4M3, CPU_INT16_NO}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int eligibility = eligibility_of(p, cases[i].code, cases[i].other, cases[i].one);
        REQUIRE(eligibility == cases[i].known,
                "int16: a matrix of 0x%02x, 0x%02x and 0x%02x is %d, not %d", cases[i].code,
                cases[i].other, cases[i].one, eligibility, cases[i].known);
    }
    return true;
}

/* ---- errors ---- */

/* The step of a block with this sum of squares and this largest value. */
static double step_of_block(double squares, double largest, double most)
{
    return fmax(sqrt(squares) / most, largest / INT16_MAX);
}

/* The worst-case error: half a step of each activation, half a 16th of each FP8 weight's unit or
 * half a step of each image weight, plus F32 rounding. */
static double allowed_error(const struct matmul_fixture *p, int row, const float *x, double *want)
{
    double sum = 0, error = 0;
    for (int block = 0; block < BLOCKS; block++) {
        const int end = (block + 1) * FP8_BLOCK < COLS ? (block + 1) * FP8_BLOCK : COLS;
        const double scale = p->vision ? 1 : p->scale[row / FP8_BLOCK * BLOCKS + block];
        double length = 0, largest = 0, weights = 0, activations = 0, products = 0, w_length = 0,
               w_largest = 0;
        for (int k = block * FP8_BLOCK; k < end; k++) {
            const double w = p->value[row * COLS + k];
            length += (double)x[k] * x[k];
            largest = fmax(largest, fabs((double)x[k]));
            weights += fabs(w);
            activations += fabs((double)x[k]);
            products += fabs(w * x[k]);
            sum += scale * w * x[k];
            w_length += w * w;
            w_largest = fmax(w_largest, fabs(w));
        }
        const double step = step_of_block(length, largest, 26000),
                     unit = p->vision ? step_of_block(w_length, w_largest, 80000)
                                      : ldexp(1, -4 - 2 * (p->w.m.int16 - 1));
        error += scale * (0.5 * step * (weights + (p->vision ? 0.5 * FP8_BLOCK * unit : 8)) +
                          0.5 * unit * activations + 1e-6 * products);
    }
    *want = sum;
    return error * (1 + 1e-5) + 1e-30;
}

/* Dequantizes the weights to p->value, and checks every row count. */
static bool check_all_counts(struct matmul_fixture *p, const char *what)
{
    static const int counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 24, 60, 61, MOST};
    static float all[MOST * ROWS];
    elements_to_f32(p->value, p->vision ? (const void *)p->bf16 : p->quantized, p->w.m.tensor.dtype,
                    (size_t)ROWS * COLS);
    p->w.m.int16 = CPU_INT16_UNKNOWN;
    run_matmul(p, MOST);
    REQUIRE(p->w.m.int16 != CPU_INT16_NO, "int16, %s: not used", what);
    memcpy(all, p->y, sizeof(all));
    for (int i = 0; i < MOST * ROWS; i++) {
        double want, error = allowed_error(p, i % ROWS, p->x + i / ROWS * COLS, &want);
        if (isnan(want))
            REQUIRE(isnan(all[i]), "int16, %s: row %d of weight row %d is %g, not NaN", what,
                    i / ROWS, i % ROWS, (double)all[i]);
        else
            REQUIRE(fabs(all[i] - want) <= error,
                    "int16, %s: row %d of weight row %d is %.9g, not %.9g (within %.3g)", what,
                    i / ROWS, i % ROWS, (double)all[i], want, error);
    }
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        memset(p->y, 0x55, sizeof(p->y));
        run_matmul(p, counts[i]);
        for (int j = 0; j < counts[i] * ROWS; j++)
            REQUIRE(memcmp(&p->y[j], &all[j], sizeof(float)) == 0 || isnan(all[j]),
                    "int16, %s: results of %d rows differ from those of %d at %d", what, counts[i],
                    MOST, j);
    }
    return true;
}

/* Values up to `largest`, which occurs in every block. */
static void random_e4m3(struct matmul_fixture *p, uint8_t largest, uint64_t *random)
{
    for (int i = 0; i < ROWS * COLS; i++) {
        const uint64_t bits = random_bits(random) >> 20;
        p->quantized[i] = (uint8_t)((bits & 0x80) |
                                    (i % 37 == 0 ? largest : bits % 128 % (largest + 1u)));
    }
}

/* Ordinary rows; rows with one far larger number, of zeros, of very large and of very small
 * numbers; one row with a NaN. */
static void random_rows(struct matmul_fixture *p, uint64_t *random)
{
    for (int i = 0; i < MOST * COLS; i++) {
        const int row = i / COLS % 6, k = i % COLS;
        const float x = random_float(random);
        p->x[i] = row == 1   ? (k % 50 == 0 ? 1000 * x : x)
                  : row == 2 ? (k % FP8_BLOCK == 3 ? x : 0)
                  : row == 3 ? 0
                  : row == 4 ? x * 1e30f
                  : row == 5 ? x * 1e-25f
                             : x;
    }
    p->x[7 * COLS + 130] = NAN;
}

static bool check_nearness(struct matmul_fixture *p, uint64_t seed)
{
    char what[64];
    for (int powers = 0; powers <= MOST_POWERS; powers++) {
        snprintf(what, sizeof(what), "%d powers of four", powers);
        random_e4m3(p, (uint8_t)(126 - 16 * powers), &seed);
        random_rows(p, &seed);
        if (!check_all_counts(p, what)) return false;
    }
    /* the largest weights, and a parallel row: sums are as large as possible */
    for (int same = 0; same < 2; same++) {
        for (int i = 0; i < ROWS * COLS; i++)
            p->quantized[i] = (uint8_t)(0x7e | (same ? 0 : (i * 7 % 3 == 0) << 7));
        for (int i = 0; i < MOST * COLS; i++)
            p->x[i] = (i / COLS % 2 ? -1.0f : 1.0f) *
                      (same || (i % COLS * 7 % 3 != 0) ? 3.3f : -3.3f);
        if (!check_all_counts(p, "sums near 2^31")) return false;
    }
    return true;
}

/* Ordinary weights; rows with one far larger weight, of zeros, of very large and of very small
 * weights; one row with a NaN. */
static void random_weights(struct matmul_fixture *p, uint64_t *random)
{
    for (int i = 0; i < ROWS * COLS; i++) {
        const int row = i / COLS % 6, k = i % COLS;
        const float w = 0.02f * random_float(random);
        p->bf16[i] = f32_to_bf16(row == 1   ? (k % 90 == 0 ? 1000 * w : w)
                                 : row == 2 ? (k % FP8_BLOCK == 5 ? w : 0)
                                 : row == 3 ? 0
                                 : row == 4 ? w * 1e20f
                                 : row == 5 ? w * 1e-20f
                                            : w);
    }
    p->bf16[12 * COLS + 3] = 0x7fc0;
}

static bool check_vision_weights(struct matmul_fixture *p, uint64_t seed)
{
    p->vision = true;
    const struct tensor tensor = {.data = p->bf16, .dtype = DTYPE_BF16, .rows = ROWS, .cols = COLS};
    p->w = direct_weight(p->be, &tensor, ROLE_VISION);
    random_weights(p, &seed);
    random_rows(p, &seed);
    for (int i = 0; i < MOST * COLS; i++)
        if (fabsf(p->x[i]) > 1e10f) p->x[i] *= 1e-20f; /* products stay finite */
    if (!check_all_counts(p, "images")) return false;
    for (int sign = 0; sign < 2; sign++) { /* rows parallel to all weights */
        for (int i = 0; i < ROWS * COLS; i++)
            p->bf16[i] = f32_to_bf16(i * 7 % 3 == sign ? -0.3f : 0.3f);
        for (int i = 0; i < MOST * COLS; i++)
            p->x[i] = i % COLS * 7 % 3 == sign ? 3.3f : -3.3f;
        if (!check_all_counts(p, "images, sums near 2^31")) return false;
    }
    return true;
}

static bool with_int16_fixture(const struct cpu_kernels *k,
                               bool (*check)(struct matmul_fixture *p, uint64_t seed),
                               uint64_t seed)
{
    struct matmul_fixture *p = calloc(1, sizeof(*p));
    if (!p || !open_int16_fixture(p, k)) return free(p), false;
    const bool ok = check(p, seed);
    close_int16_fixture(p);
    free(p);
    return ok;
}

static bool check_int16_choice(const struct cpu_kernels *k, uint64_t seed)
{
    return !k->fp8 || with_int16_fixture(k, check_choice, seed);
}

static bool check_int16(const struct cpu_kernels *k, uint64_t seed)
{
    return !k->fp8 || with_int16_fixture(k, check_nearness, seed);
}

static bool check_int16_vision(const struct cpu_kernels *k, uint64_t seed)
{
    return !k->vision || with_int16_fixture(k, check_vision_weights, seed);
}

const struct direct_test int16_tests[] = {{"int16 or not", check_int16_choice},
                                          {"int16 matmuls", check_int16},
                                          {"int16 matmuls of images", check_int16_vision},
                                          {NULL, NULL}};
