/* SPDX-License-Identifier: Apache-2.0 */
/* Dequantized GGUF blocks equal those of ggml's Python package bit for bit
 * (tools/gguf/make_block_cases.py): single blocks, a checksum of thousands, parts of rows, and the
 * kernels of each tier. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "checkpoint/safetensors.h"
#include "kernels/cpu/cpu_kernels.h"
#include "tensor/dequantize.h"
#include "tensor/gguf_blocks.h"

enum { MANY = 4096, MOST_VALUES = 256, MOST_BYTES = 292 };

static struct safetensors *cases;

/* In the order of the script, whose seeds depend on it. */
static const struct {
    const char *name;
    enum dtype dtype;
    int halves[2]; /* offsets of its F16 numbers; -1: none */
} types[] = {
    {"Q4_0", DTYPE_Q4_0, {0, -1}},         {"Q4_1", DTYPE_Q4_1, {0, 2}},
    {"Q5_0", DTYPE_Q5_0, {0, -1}},         {"Q5_1", DTYPE_Q5_1, {0, 2}},
    {"Q8_0", DTYPE_Q8_0, {0, -1}},         {"Q2_K", DTYPE_Q2_K, {80, 82}},
    {"Q3_K", DTYPE_Q3_K, {108, -1}},       {"Q4_K", DTYPE_Q4_K, {0, 2}},
    {"Q5_K", DTYPE_Q5_K, {0, 2}},          {"Q6_K", DTYPE_Q6_K, {208, -1}},
    {"Q8_K", DTYPE_Q8_K, {-1, -1}},        {"IQ4_NL", DTYPE_IQ4_NL, {0, -1}},
    {"IQ4_XS", DTYPE_IQ4_XS, {0, -1}},     {"MXFP4", DTYPE_GGUF_MXFP4, {-1, -1}},
    {"NVFP4", DTYPE_GGUF_NVFP4, {-1, -1}},
};
enum { TYPES = sizeof(types) / sizeof(types[0]) };

static const struct tensor_view *case_tensor(int type, const char *what)
{
    char name[32];
    snprintf(name, sizeof(name), "%s.%s", types[type].name, what);
    const struct tensor_view *t = safetensors_find(cases, name);
    if (!t) fail_msg("%s is not among the cases", name);
    return t;
}

/* A one-row matrix of these blocks. */
static struct tensor row_of_blocks(int type, const void *blocks, int64_t n)
{
    const struct dtype_traits *t = dtype_info(types[type].dtype);
    return (struct tensor){
        .data = blocks, .dtype = types[type].dtype, .rows = 1, .cols = n * t->values};
}

static void stored_blocks(void **state)
{
    (void)state;
    for (int i = 0; i < TYPES; i++) {
        const struct tensor_view *blocks = case_tensor(i, "blocks"),
                                 *values = case_tensor(i, "values");
        const int64_t n = blocks->shape[0], cols = n * values->shape[1];
        const struct tensor w = row_of_blocks(i, blocks->data, n);
        float *out = malloc((size_t)cols * sizeof(*out));
        assert_int_equal(blocks->shape[1], dtype_info(w.dtype)->bytes);
        assert_int_equal(values->shape[1], dtype_info(w.dtype)->values);
        dequantize_columns(out, &w, 0, 0, (size_t)cols);
        if (memcmp(out, values->data, (size_t)cols * sizeof(*out)) != 0)
            fail_msg("%s: other values", types[i].name);
        free(out);
    }
}

/* ---- thousands of blocks ---- */

static void random_bytes(uint8_t *out, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i += 8, seed++) {
        uint64_t z = seed * 0x9E3779B97F4A7C15;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
        z = (z ^ z >> 27) * 0x94D049BB133111EB;
        z ^= z >> 31;
        memcpy(out + i, &z, n - i < 8 ? n - i : 8);
    }
}

/* Makes scales finite. */
static void make_finite(uint8_t *block, int type)
{
    for (int i = 0; i < 2; i++) {
        const int at = types[type].halves[i];
        if (at >= 0 && (block[at + 1] & 0x7c) == 0x7c) block[at + 1] ^= 0x40;
    }
    if (types[type].dtype == DTYPE_Q8_K) block[3] &= 0xbf;
    if (types[type].dtype == DTYPE_GGUF_MXFP4 && block[0] > 252) block[0] = 252;
    for (int i = 0; types[type].dtype == DTYPE_GGUF_NVFP4 && i < 4; i++)
        block[i] &= 0x7f;
}

static uint8_t *many_blocks(int type)
{
    const size_t size = dtype_info(types[type].dtype)->bytes;
    uint8_t *blocks = malloc(MANY * size);
    assert_non_null(blocks);
    random_bytes(blocks, MANY * size, (uint64_t)type << 32);
    for (size_t i = 0; i < MANY; i++)
        make_finite(blocks + i * size, type);
    return blocks;
}

static uint64_t checksum(const float *values, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof(bits));
        sum += bits * (2 * (uint64_t)i + 1);
    }
    return sum;
}

static void many_checksums(void **state)
{
    (void)state;
    for (int i = 0; i < TYPES; i++) {
        uint8_t *blocks = many_blocks(i);
        const struct tensor w = row_of_blocks(i, blocks, MANY);
        float *out = malloc((size_t)w.cols * sizeof(*out));
        uint64_t stored;
        memcpy(&stored, case_tensor(i, "checksum")->data, sizeof(stored));
        dequantize_columns(out, &w, 0, 0, (size_t)w.cols);
        if (checksum(out, (size_t)w.cols) != stored) fail_msg("%s: other values", types[i].name);
        free(out);
        free(blocks);
    }
}

/* Any columns of any row, with and without a factor. */
static void parts_of_rows(void **state)
{
    (void)state;
    for (int i = 0; i < TYPES; i++) {
        uint8_t *blocks = many_blocks(i);
        struct tensor w = row_of_blocks(i, blocks, 2);
        const float factor = 0.37f;
        float whole[2 * MOST_VALUES], part[2 * MOST_VALUES];
        w.rows = 3;
        for (int64_t row = 0; row < w.rows; row++) {
            w.factor = NULL;
            dequantize_columns(whole, &w, row, 0, (size_t)w.cols);
            for (int64_t first = 0; first < w.cols; first += 7) {
                const size_t n = (size_t)(w.cols - first) < 45 ? (size_t)(w.cols - first) : 45;
                dequantize_columns(part, &w, row, first, n);
                assert_memory_equal(part, whole + first, n * sizeof(*part));
            }
            w.factor = &factor;
            dequantize_columns(part, &w, row, 0, (size_t)w.cols);
            for (int64_t c = 0; c < w.cols; c++)
                assert_true(part[c] == whole[c] * factor);
        }
        free(blocks);
    }
}

static void rows_of_kernels(void **state)
{
    (void)state;
    static const enum cpu_tier tiers[] = {CPU_GENERIC, CPU_AVX2, CPU_AVX512, CPU_AMX};
    for (size_t tier = 0; tier < sizeof(tiers) / sizeof(tiers[0]); tier++) {
        const struct cpu_kernels *k = cpu_kernels_for(
            cpu_isa_usable((struct cpu_isa){tiers[tier], true, true}));
        for (int i = 0; i < TYPES; i++) {
            uint8_t *blocks = many_blocks(i);
            const struct cpu_matrix m = {.tensor = row_of_blocks(i, blocks, MANY)};
            float *out = malloc((size_t)m.tensor.cols * sizeof(*out));
            uint64_t stored;
            memcpy(&stored, case_tensor(i, "checksum")->data, sizeof(stored));
            k->rows->dequantize_row(out, &m, 0);
            if (checksum(out, (size_t)m.tensor.cols) != stored)
                fail_msg("%s by %s: other values", types[i].name, k->name);
            free(out);
            free(blocks);
        }
    }
}

/* An infinite or NaN scale is found in any block. */
static void scales_that_are_not_finite(void **state)
{
    (void)state;
    for (int i = 0; i < TYPES; i++) {
        uint8_t *blocks = many_blocks(i);
        struct tensor w = row_of_blocks(i, blocks, 4);
        const size_t size = dtype_info(types[i].dtype)->bytes;
        w.rows = MANY / 4;
        assert_true(gguf_rows_are_finite(&w, 0, w.rows));
        for (int k = 0; k < 2; k++) {
            const int at = types[i].dtype == DTYPE_Q8_K         ? 3
                           : types[i].dtype == DTYPE_GGUF_MXFP4 ? 0
                           : types[i].halves[k] >= 0            ? types[i].halves[k] + 1
                                                                : -1;
            if (at < 0) continue;
            uint8_t *byte = blocks + 1235 * size + (size_t)at, was = *byte;
            *byte = types[i].dtype == DTYPE_Q8_K || types[i].dtype == DTYPE_GGUF_MXFP4 ? 0xff
                                                                                       : 0x7c;
            assert_false(gguf_rows_are_finite(&w, 0, w.rows));
            assert_false(gguf_rows_are_finite(&w, 308, 1));
            assert_true(gguf_rows_are_finite(&w, 0, 308));
            assert_true(gguf_rows_are_finite(&w, 309, w.rows - 309));
            *byte = was;
        }
        free(blocks);
    }
}

static int open_cases(void **state)
{
    ey_err e;
    (void)state;
    if (safetensors_open(&cases, "tests/tensor/gguf_blocks.safetensors", &e)) return 0;
    fprintf(stderr, "%s\n", e.text);
    return 1;
}

static int close_cases(void **state)
{
    (void)state;
    safetensors_close(cases);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_blocks),
        cmocka_unit_test(many_checksums),
        cmocka_unit_test(parts_of_rows),
        cmocka_unit_test(rows_of_kernels),
        cmocka_unit_test(scales_that_are_not_finite),
    };
    return cmocka_run_group_tests(tests, open_cases, close_cases);
}
