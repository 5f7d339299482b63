/* SPDX-License-Identifier: Apache-2.0 */
/* Random matrices in the kernels' layouts, with their values in double. */
#ifndef EY_TESTS_CUDA_KERNEL_TEST_MATRICES_H
#define EY_TESTS_CUDA_KERNEL_TEST_MATRICES_H

#include "cuda/kernel_test_values.h"

static inline double f16_double(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 0x3ff;
    double v = exponent ? ldexp(1.0 + fraction / 1024.0, exponent - 15) : ldexp(fraction, -24);
    return h & 0x8000 ? -v : v;
}

struct matrix {
    struct dev_matrix dev;
    double *value; /* [rows, cols] */
};

static inline size_t kernel_dtype_size(int dtype)
{
    return dtype == K_F32 ? 4 : dtype == K_F16 || dtype == K_BF16 ? 2 : 1;
}

/* Packs rows as abi.h describes. */
static inline void *pack_rows(const uint8_t *row_major, int rows, int row_bytes)
{
    int blocks = (rows + 15) / 16, chunks = (row_bytes + 63) / 64;
    size_t bytes = (size_t)blocks * (size_t)chunks * PACK_CHUNK;
    uint8_t *out = aligned(bytes);
    memset(out, 0, bytes);
    for (int r = 0; r < rows; r++)
        for (int b = 0; b < row_bytes; b++) {
            int lane = r % 8 * 4 + b % 64 / 16;
            out[(r / 16 * chunks + b / 64) * PACK_CHUNK + r % 16 / 8 * 512 + lane * 16 + b % 16] =
                row_major[r * row_bytes + b];
        }
    return out;
}

/* Writes a random element to `to` and returns its value. */
static inline double random_element(void *to, int dtype)
{
    if (dtype == K_F32) {
        float f = random_float();
        memcpy(to, &f, 4);
        return (double)f;
    }
    if (dtype == K_BF16) {
        bf16 v = float_bf16(random_float());
        memcpy(to, &v, 2);
        return (double)bf16_float(v);
    }
    if (dtype == K_F16) {
        uint16_t v = (uint16_t)(random_bits() & 0xbfffu); /* below 2 */
        memcpy(to, &v, 2);
        return f16_double(v);
    }
    uint8_t code = (uint8_t)random_bits();
    if (dtype == K_FP8 && (code & 0x7f) == 0x7f) code ^= 1;
    *(uint8_t *)to = code;
    return dtype == K_FP8 ? e4m3_double(code) : (double)(int8_t)code;
}

/* A packed word of scale and zero point, and both as numbers. */
static inline uint32_t random_scale_zero(int wide, double *scale, int *zero)
{
    const uint32_t exponent = 11 + random_bits() % 5,
                   mantissa = random_bits() & (wide ? 0x3ff : 0x3f8);
    const uint32_t bits = exponent << 10 | mantissa | (wide ? (random_bits() & 1) << 15 : 0);
    *zero = (int)(random_bits() & 15);
    *scale = f16_double((uint16_t)bits);
    return wide ? bits | (uint32_t)*zero << 16 : bits << 1 | (uint32_t)*zero;
}

/* Random int4 with scales as in abi.h, exact in F16, and groups along the columns. Every other
 * matrix has wide scales. */
static inline struct matrix random_int4(int rows, int cols)
{
    const int group = cols % 128 == 0  ? 128
                      : cols % 64 == 0 ? 64
                                       : 32,
              per = 128 / group, row_bytes = cols / 2, chunks = (row_bytes + 63) / 64;
    uint8_t *plain = aligned((size_t)rows * (size_t)row_bytes);
    size_t words = (size_t)((rows + 15) / 16 * chunks * 16 * per);
    const int wide = (int)(random_bits() & 1);
    uint32_t *wide_words = aligned(words * 4);
    uint16_t *short_words = (uint16_t *)(void *)wide_words;
    struct matrix m = {{.rows = rows,
                        .cols = cols,
                        .dtype = K_INT4,
                        .packed = 1,
                        .groups_per_128 = per,
                        .global_scale = 0x1p-7f,
                        .wide_scales = wide},
                       aligned(sizeof(double) * (size_t)rows * (size_t)cols)};
    memset(wide_words, 0, words * 4);
    for (int r = 0; r < rows; r++) {
        double scale = 0;
        int zero = 0;
        for (int c = 0; c < cols; c++) {
            const size_t at = (size_t)(((r / 16 * chunks + c / 128) * 8 + r % 8) * 2 * per +
                                       c % 128 / group * 2 + r / 8 % 2);
            uint8_t *byte = &plain[(size_t)r * (size_t)row_bytes + (size_t)c / 2],
                    code = (uint8_t)(random_bits() & 15);
            if (c % group == 0) {
                const uint32_t word = random_scale_zero(wide, &scale, &zero);
                if (wide)
                    wide_words[at] = word;
                else
                    short_words[at] = (uint16_t)word;
            }
            *byte = (uint8_t)(c % 2 ? *byte | code << 4 : code);
            m.value[(size_t)r * (size_t)cols + (size_t)c] = (code - zero) * scale *
                                                            (double)m.dev.global_scale;
        }
    }
    m.dev.data = pack_rows(plain, rows, row_bytes);
    m.dev.group_scales = wide_words;
    return m;
}

static inline struct matrix random_matrix(int dtype, int rows, int cols, int packed)
{
    if (dtype == K_INT4) return random_int4(rows, cols);
    size_t size = kernel_dtype_size(dtype), row_bytes = size * (size_t)cols;
    int scale_cols = (cols + SCALE_BLOCK - 1) / SCALE_BLOCK;
    uint8_t *plain = aligned((size_t)rows * row_bytes);
    struct matrix m = {{.rows = rows, .cols = cols, .dtype = dtype, .packed = packed},
                       aligned(sizeof(double) * (size_t)rows * (size_t)cols)};
    size_t n_scales = dtype == K_FP8 ? (size_t)((rows + SCALE_BLOCK - 1) / SCALE_BLOCK * scale_cols)
                                     : (size_t)rows;
    float *scale = dtype == K_FP8 || dtype == K_INT8 ? random_floats(n_scales, 0.01f) : NULL;
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < cols; c++) {
            double v = random_element(plain + (size_t)r * row_bytes + (size_t)c * size, dtype);
            if (dtype == K_FP8) v *= (double)scale[r / SCALE_BLOCK * scale_cols + c / SCALE_BLOCK];
            if (dtype == K_INT8) v *= (double)scale[r];
            m.value[(size_t)r * (size_t)cols + (size_t)c] = v;
        }
    }
    m.dev.data = packed ? pack_rows(plain, rows, (int)row_bytes) : plain;
    m.dev.scale = scale;
    return m;
}

#endif
