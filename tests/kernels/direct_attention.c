/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU attention kernel against a softmax in double: any number of rows and visible keys, BF16
 * and F32 storage, NaN and extreme scores. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/dequantize.h"
#include "kernels/kernel_tests.h"

enum { MAX_DIM = 128, BLOCKS = 3, KEYS = BLOCKS * CPU_KEY_BLOCK };

struct keys {
    struct memory memory;
    float key[KEYS][MAX_DIM], value[KEYS][MAX_DIM];
    float query[CPU_Q_ROWS][MAX_DIM];
    void *stored_keys[BLOCKS],
        *stored_values[BLOCKS]; /* in the kernel's layout; values end at a guard page */
    /* visible: number of keys, in all blocks, that a row sees */
    int dim, n_rows, visible[CPU_Q_ROWS];
    bool bf16;
};

/* The float with x's upper 16 bits. */
static float rounded(float x, bool bf16)
{
    float upper;
    uint16_t half[2];
    memcpy(half, &x, sizeof(half));
    half[0] = 0;
    memcpy(&upper, half, sizeof(upper));
    return bf16 ? upper : x;
}

static void put_value(void *to, size_t i, float x, bool bf16)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    uint16_t high = (uint16_t)(bits >> 16);
    if (bf16)
        memcpy((uint8_t *)to + 2 * i, &high, 2);
    else
        memcpy((uint8_t *)to + 4 * i, &x, 4);
}

static void fill_keys(struct keys *s, uint64_t *random, float size)
{
    for (int j = 0; j < KEYS; j++)
        for (int d = 0; d < s->dim; d++) {
            s->key[j][d] = rounded(random_float(random), s->bf16);
            s->value[j][d] = rounded(random_float(random), s->bf16);
        }
    for (int r = 0; r < CPU_Q_ROWS; r++) {
        s->visible[r] = (int)(random_bits(random) % (KEYS + 1));
        if (s->visible[r] == 0 || r == 3) s->visible[r] = r % 2 ? 1 : CPU_KEY_BLOCK;
        for (int d = 0; d < s->dim; d++)
            s->query[r][d] = size * random_float(random);
    }
}

/* BF16 rows are interleaved in pairs. */
static size_t element_index(const struct keys *s, size_t row, size_t stride, size_t column)
{
    return s->bf16 ? (row / 2 * stride + column) * 2 + row % 2 : row * stride + column;
}

static void store_keys(struct keys *s)
{
    size_t dim = (size_t)s->dim, bytes = CPU_KEY_BLOCK * dim * (s->bf16 ? 2 : 4);
    for (int b = 0; b < BLOCKS; b++) {
        s->stored_keys[b] = memory_alloc(&s->memory, bytes, 0);
        s->stored_values[b] = memory_alloc(&s->memory, bytes, 0);
        for (size_t j = 0; j < CPU_KEY_BLOCK; j++)
            for (size_t d = 0; d < dim; d++) {
                put_value(s->stored_keys[b], element_index(s, d, CPU_KEY_BLOCK, j),
                          s->key[(size_t)b * CPU_KEY_BLOCK + j][d], s->bf16);
                put_value(s->stored_values[b], element_index(s, j, dim, d),
                          s->value[(size_t)b * CPU_KEY_BLOCK + j][d], s->bf16);
            }
    }
}

/* Runs one tile over all blocks: out[n_rows][dim]. */
static void run_tile(const struct cpu_kernels *k, const struct keys *s, const int *rows, int n_rows,
                     float out[CPU_Q_ROWS][MAX_DIM])
{
    static uint16_t scratch[(CPU_Q_PARTS * CPU_Q_ROWS + CPU_KEY_BLOCK) * (MAX_DIM + 32)]
        __attribute__((aligned(64)));
    float o[CPU_Q_ROWS * MAX_DIM] = {0};
    struct attention_tile t = {
        .n_rows = n_rows, .dim = s->dim, .scratch = scratch, .o = o, .o_stride = (size_t)s->dim};
    for (int r = 0; r < n_rows; r++) {
        t.q[r] = s->query[rows[r]];
        t.max[r] = -1e30f;
    }
    for (int b = 0; b < BLOCKS; b++) {
        for (int r = 0; r < n_rows; r++) {
            int left = s->visible[rows[r]] - b * CPU_KEY_BLOCK;
            t.end_key[r] = left < 0 ? 0 : left > CPU_KEY_BLOCK ? CPU_KEY_BLOCK : left;
        }
        k->attention(&t, s->stored_keys[b], s->stored_values[b],
                     s->bf16 ? KV_LAYOUT_BF16 : KV_LAYOUT_F32);
    }
    for (int r = 0; r < n_rows; r++)
        for (int d = 0; d < s->dim; d++)
            out[r][d] = o[(size_t)r * t.o_stride + (size_t)d] / t.sum[r];
}

static void exact_row(const struct keys *s, int r, double *out)
{
    double score[KEYS], max = -INFINITY, sum = 0;
    for (int j = 0; j < s->visible[r]; j++) {
        score[j] = 0;
        for (int d = 0; d < s->dim; d++)
            score[j] += (double)s->query[r][d] * (double)s->key[j][d];
        max = score[j] > max ? score[j] : max;
    }
    for (int d = 0; d < s->dim; d++)
        out[d] = 0;
    for (int j = 0; j < s->visible[r]; j++) {
        double weight = exp(score[j] - max);
        sum += weight;
        for (int d = 0; d < s->dim; d++)
            out[d] += weight * (double)s->value[j][d];
    }
    for (int d = 0; d < s->dim; d++)
        out[d] /= sum;
}

/* A score s has an error of a few s · 2^-24, and its weight a relative error of that size. */
static bool check_tile(const struct cpu_kernels *k, const struct keys *s, double allowed)
{
    int all[CPU_Q_ROWS];
    float got[CPU_Q_ROWS][MAX_DIM], alone[CPU_Q_ROWS][MAX_DIM];
    double want[MAX_DIM];
    for (int r = 0; r < CPU_Q_ROWS; r++)
        all[r] = r;
    run_tile(k, s, all, s->n_rows, got);
    for (int r = 0; r < s->n_rows; r++) {
        exact_row(s, r, want);
        run_tile(k, s, &all[r], 1, alone);
        for (int d = 0; d < s->dim; d++) {
            bool near = fabs((double)got[r][d] - want[d]) <= allowed,
                 same = memcmp(&got[r][d], &alone[0][d], sizeof(float)) == 0;
            if (near && same) continue;
            printf("attend: row %d of %d, %d keys, dim %d: %d is %.9g, alone %.9g, exactly %.9g\n",
                   r, s->n_rows, s->visible[r], s->dim, d, (double)got[r][d], (double)alone[0][d],
                   want[d]);
            return false;
        }
    }
    return true;
}

static bool check_attention_kernel(const struct cpu_kernels *k, uint64_t seed)
{
    static const int dims[] = {16, 64, 96, 128};
    static const struct {
        float query;
        double allowed;
    } sizes[] = {{0, 1e-6}, {0.3f, 2e-6}, {100, 1e-3}, {1e-30f, 1e-6}};
    struct keys *s = calloc(1, sizeof(*s));
    bool ok = true;
    for (int i = 0; ok && i < 4 * 4 * 2 * CPU_Q_ROWS; i++) {
        s->dim = dims[i % 4];
        s->bf16 = i / 16 % 2;
        s->n_rows = 1 + i / 32 % CPU_Q_ROWS;
        fill_keys(s, &seed, sizes[i / 4 % 4].query);
        store_keys(s);
        ok = check_tile(k, s, sizes[i / 4 % 4].allowed);
        memory_free(&s->memory);
    }
    free(s);
    return ok;
}

/* A NaN key makes rows that see it NaN, and no others, as in ref. */
static bool check_nan_key(const struct cpu_kernels *k, uint64_t seed)
{
    static const int rows[4] = {0, 1, 2, 3};
    struct keys *s = calloc(1, sizeof(*s));
    float got[CPU_Q_ROWS][MAX_DIM];
    bool ok = true;
    for (int at = 0; at < 100; at += 9) {
        s->dim = 64;
        s->n_rows = 4;
        s->bf16 = at % 2;
        fill_keys(s, &seed, 0.3f);
        s->key[at][5] = NAN;
        store_keys(s);
        s->visible[0] = at + 1;
        s->visible[1] = at ? at : 1;
        s->visible[2] = 150;
        s->visible[3] = at ? 1 : KEYS;
        run_tile(k, s, rows, 4, got);
        ok = ok && isnan(got[0][0]) && isnan(got[2][7]) &&
             (at == 0 || (!isnan(got[1][0]) && !isnan(got[3][0])));
        memory_free(&s->memory);
    }
    if (!ok) printf("attend: a NaN key does not give NaN\n");
    free(s);
    return ok;
}

const struct direct_test attention_tests[] = {
    {"attend kernel", check_attention_kernel},
    {"attend kernel, NaN", check_nan_key},
    {NULL, NULL},
};
