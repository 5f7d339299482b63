/* SPDX-License-Identifier: Apache-2.0 */
/* Group-scaled weights in int16: every result is within the worst case of the rounding steps of
 * activations. Quantized values and scales have their largest values and rows of x are parallel to
 * weight rows, so that sums come close to 2^31; groups of every size, scales of every type, few
 * rows and many. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/dequantize.h"
#include "tensor/gguf_blocks.h"
#include "backend/cpu/cpu_backend.h"
#include "kernels/direct_weight.h"
#include "kernels/kernel_tests.h"

enum { ROWS = 37, COLS = 1024 + 128, MOST = 17, ROW_BYTES = COLS * 2, X_BLOCK = 256 };

struct groups_fixture {
    struct backend *be;
    struct pool *pool;
    struct cpu_weight w;
    uint8_t data[ROWS * ROW_BYTES];
    float scales[ROWS * COLS / 32]; /* or F16 */
    uint32_t zeros[(ROWS + 7) / 8 * COLS / 32];
    float value[ROWS * COLS], x[MOST * COLS], y[MOST * ROWS];
    int cols;
};

/* How quantized values and scales are filled. */
enum codes { RANDOM_CODES, ZERO_CODES, FULL_CODES, CODE_KINDS };

static uint8_t code_byte(enum codes kind, uint64_t *random)
{
    return kind == RANDOM_CODES ? (uint8_t)(random_bits(random) >> 20)
           : kind == FULL_CODES ? 0xff
                                : 0;
}

/* Fills a block at random, with finite F16 scales and Q6_K's signed scales. */
static void fill_block(uint8_t *p, enum dtype dtype, enum codes kind, uint64_t *random)
{
    const size_t bytes = dtype_info(dtype)->bytes, at = dtype == DTYPE_Q6_K ? 208 : 0;
    for (size_t i = 0; i < bytes; i++)
        p[i] = code_byte(kind, random);
    if (dtype == DTYPE_Q8_0 && kind == FULL_CODES) memset(p, 0x80, bytes);
    if (dtype == DTYPE_Q6_K && kind != RANDOM_CODES) memset(p + 192, 0x80, 16);
    p[at + 1] = (uint8_t)(0x20 + random_bits(random) % 4);
    if (dtype == DTYPE_Q4_K || dtype == DTYPE_Q5_K)
        p[3] = (uint8_t)(0x20 + random_bits(random) % 4);
}

static void fill_gguf(struct groups_fixture *p, enum dtype dtype, enum codes kind, uint64_t *random)
{
    const struct dtype_traits *type = dtype_info(dtype);
    p->cols = type->values == X_BLOCK ? 1024 : COLS - 64;
    for (size_t i = 0; i < (size_t)(ROWS * p->cols / type->values); i++)
        fill_block(p->data + i * type->bytes, dtype, kind, random);
}

static void fill_int4(struct groups_fixture *p, struct tensor *w, enum codes kind, int group,
                      enum dtype scale_dtype, uint64_t *random)
{
    p->cols = group == 128 ? COLS : COLS - 64;
    for (size_t i = 0; i < (size_t)(ROWS * p->cols / 2); i++)
        p->data[i] = code_byte(kind, random);
    for (size_t i = 0; i < sizeof(p->zeros) / sizeof(p->zeros[0]); i++)
        p->zeros[i] = kind == RANDOM_CODES ? (uint32_t)random_bits(random)
                      : kind == FULL_CODES ? 0
                                           : 0xffffffff;
    for (int i = 0; i < ROWS * p->cols / group; i++) {
        const float scale = (random_bits(random) & 1 ? -1.0f : 1.0f) *
                            (0.5f + (float)(random_bits(random) % 64) / 64);
        const uint16_t bf16 = f32_to_bf16(scale),
                       f16 = (uint16_t)(0x3800 + random_bits(random) % 512);
        if (scale_dtype == DTYPE_F32)
            p->scales[i] = scale;
        else
            memcpy((uint16_t *)p->scales + i, scale_dtype == DTYPE_F16 ? &f16 : &bf16, sizeof(f16));
    }
    w->group_size = group;
    w->scale_dtype = scale_dtype;
    w->group_scale = p->scales;
    w->group_zero = p->zeros;
}

/* Random rows, some with one far larger number; then rows parallel to weight rows. */
static void fill_rows(struct groups_fixture *p, uint64_t *random)
{
    for (int i = 0; i < MOST; i++)
        for (int k = 0; k < p->cols; k++) {
            const float x = random_float(random), w = p->value[i * p->cols + k];
            p->x[i * p->cols + k] = i >= MOST / 2 ? (w < 0 ? -3.3f : 3.3f)
                                    : i % 3 == 1  ? (k % 90 == 0 ? 1000 * x : x)
                                                  : x;
        }
}

/* The worst-case error: half a step of each activation, plus F32 rounding. */
static double worst_error(const struct groups_fixture *p, const float *x, const float *w,
                          double *want)
{
    double error = 0;
    *want = 0;
    for (int block = 0; block < p->cols; block += X_BLOCK) {
        const int end = block + X_BLOCK < p->cols ? block + X_BLOCK : p->cols;
        double length = 0, weights = 0, products = 0;
        for (int k = block; k < end; k++) {
            length += (double)x[k] * x[k];
            weights += fabs((double)w[k]);
            products += fabs((double)w[k] * x[k]);
            *want += (double)w[k] * x[k];
        }
        error += 0.5 * sqrt(length) / 26000 * weights + 1e-6 * products;
    }
    return error * (1 + 1e-5) + 1e-30;
}

static void multiply_groups(struct groups_fixture *p, int n)
{
    const struct cpu_input in = {.x = p->x, .x_stride = (size_t)p->cols, .n = n, .width = p->cols};
    const struct cpu_linear linear = {&p->w, NULL, p->y, ROWS};
    memset(p->y, 0x55, sizeof(p->y));
    cpu_matmul((struct cpu *)p->be, &in, &linear, 1, CPU_STORE);
}

static bool check_groups(struct groups_fixture *p, struct tensor *w, const char *what,
                         uint64_t *random)
{
    static const int counts[] = {1, 2, 3, 4, 5, 8, 9};
    static float all[MOST * ROWS];
    w->cols = p->cols;
    for (int row = 0; row < ROWS; row++)
        dequantize_columns(p->value + row * p->cols, w, row, 0, (size_t)p->cols);
    p->w = direct_weight(p->be, w, ROLE_TEXT);
    fill_rows(p, random);
    multiply_groups(p, MOST);
    memcpy(all, p->y, sizeof(all));
    for (int i = 0; i < MOST * ROWS; i++) {
        double want,
            error = worst_error(p, p->x + i / ROWS * p->cols, p->value + i % ROWS * p->cols, &want);
        REQUIRE(fabs(all[i] - want) <= error,
                "%s: row %d of weight row %d is %.9g, not %.9g (within %.3g)", what, i / ROWS,
                i % ROWS, (double)all[i], want, error);
    }
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        multiply_groups(p, counts[i]);
        REQUIRE(memcmp(p->y, all, (size_t)(counts[i] * ROWS) * sizeof(float)) == 0,
                "%s: results of %d rows differ from those of %d", what, counts[i], MOST);
    }
    return true;
}

static bool check_types(struct groups_fixture *p, uint64_t seed)
{
    static const enum dtype gguf[] = {DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q4_K,
                                      DTYPE_Q5_K, DTYPE_Q6_K, DTYPE_IQ4_XS},
                            scale_types[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};
    for (int kind = 0; kind < CODE_KINDS; kind++) {
        char what[64];
        for (size_t i = 0; i < sizeof(gguf) / sizeof(gguf[0]); i++) {
            struct tensor w = {.data = p->data, .dtype = gguf[i], .rows = ROWS};
            snprintf(what, sizeof(what), "%s, codes %d", dtype_info(gguf[i])->label, kind);
            fill_gguf(p, gguf[i], (enum codes)kind, &seed);
            if (!check_groups(p, &w, what, &seed)) return false;
        }
        for (int group = 32; group <= 128; group *= 2)
            for (size_t i = 0; i < sizeof(scale_types) / sizeof(scale_types[0]); i++) {
                struct tensor w = {.data = p->data, .dtype = DTYPE_INT4, .rows = ROWS};
                snprintf(what, sizeof(what), "int4 in groups of %d, scales of type %d, codes %d",
                         group, (int)i, kind);
                fill_int4(p, &w, (enum codes)kind, group, scale_types[i], &seed);
                if (!check_groups(p, &w, what, &seed)) return false;
            }
    }
    return true;
}

static bool check_int16_groups(const struct cpu_kernels *k, uint64_t seed)
{
    const struct backend_limits limits = {
        .max_rows = MOST, .max_width = COLS, .max_keys = 64, .max_patches = 64};
    struct groups_fixture *p = calloc(1, sizeof(*p));
    ey_err e;
    if (!k->blocks) return free(p), true;
    if (!p || !pool_create(&p->pool, 2, &e)) return free(p), false;
    bool ok = backend_cpu_create(&p->be, p->pool, k->mask, &e);
    if (ok) {
        ok = p->be->ops->memory->reserve(p->be, &limits, &e) && check_types(p, seed);
        p->be->ops->destroy(p->be);
    }
    pool_destroy(&p->pool);
    free(p);
    return ok;
}

const struct direct_test groups_tests[] = {{"int16 matmuls of groups", check_int16_groups},
                                           {NULL, NULL}};
