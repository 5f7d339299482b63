/* SPDX-License-Identifier: Apache-2.0 */
/* What a tensor is to everyone: a dtype, a shape and a place in memory that somebody else owns. */
#ifndef EY_BACKEND_TENSOR_H
#define EY_BACKEND_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dtype {
    DTYPE_NONE, /* no tensor */
    DTYPE_F64,
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_F8_E4M3,
    DTYPE_F8_E5M2,
    DTYPE_I64,
    DTYPE_I32,
    DTYPE_I16,
    DTYPE_I8,
    DTYPE_U8,
    DTYPE_BOOL,
    DTYPE_INT4, /* two to a byte, the first in the low half. No file names it: it lies there as I32
                   words of eight */
};

/* Bytes of one element; 0 for DTYPE_NONE and DTYPE_INT4. */
static inline size_t dtype_size(enum dtype d)
{
    static const uint8_t size[] = {0, 8, 4, 2, 2, 1, 1, 8, 4, 2, 1, 1, 1, 0};
    return (size_t)d < sizeof(size) ? size[d] : 0;
}

struct weight_recipe;

/* A weight matrix [rows, cols], row-major, used as y = x · Wᵀ; a vector is [1, cols]. Data may lie
 * at any address (files give no alignment): read it with memcpy or unaligned loads. */
struct tensor {
    const void *data;
    enum dtype dtype;
    int64_t rows, cols;
    const float *scale; /* block FP8: [ceil(rows/128), ceil(cols/128)] scales; int8: [rows];
                           NULL otherwise */
    /* int4: weight = (nibble - zero) · scale, both of its group of columns
     * (docs/guides/quantization.md); at any address, as files have them */
    int group_size; /* columns of a group: 32, 64 or 128, which divides cols; 0 otherwise */
    const void *group_scale; /* BF16 [rows, cols/group] */
    const void *group_zero;  /* 0..15: row r's is bits 4·(r % 8) .. of the 32-bit word [r/8, g] of
                                [ceil(rows/8), cols/group] */
    /* NULL, or what the matrix is made of when it is placed: dtype and group are then what it
     * becomes, and data has no meaning but that it is there */
    const struct weight_recipe *recipe;
};

/* What a matrix is quantised from while it is loaded. */
struct weight_recipe {
    struct tensor source;
    const float
        *importance; /* [cols] what an error in a column counts, squared; NULL: all the same */
};

enum {
    FP8_BLOCK = 128,
    ZEROS_PER_WORD = 8 /* rows whose four-bit zeros share a word */,
    BF12_ROWS = 16 /* of a block of BF12 (tensor/bf12.h) */
};

static inline int64_t weight_groups(const struct tensor *w)
{
    return w->cols / w->group_size;
}

/* Bytes of the scales and zeros of a four-bit matrix. */
static inline size_t weight_group_scale_bytes(const struct tensor *w)
{
    return (size_t)(w->rows * weight_groups(w)) * sizeof(uint16_t);
}

static inline size_t weight_group_zero_bytes(const struct tensor *w)
{
    return (size_t)((w->rows + ZEROS_PER_WORD - 1) / ZEROS_PER_WORD * weight_groups(w)) *
           sizeof(uint32_t);
}

/* Multipliers of the blocks of FP8 row `row`, or NULL. */
static inline const float *weight_row_scale(const struct tensor *w, int64_t row)
{
    return w->scale ? w->scale + row / FP8_BLOCK * ((w->cols + FP8_BLOCK - 1) / FP8_BLOCK) : NULL;
}

/* Blocks of its BF12 form. */
static inline size_t weight_bf12_blocks(const struct tensor *w)
{
    return ((size_t)w->rows + BF12_ROWS - 1) / BF12_ROWS;
}

/* Bytes of one row's elements. */
static inline size_t weight_row_bytes(const struct tensor *w)
{
    return w->dtype == DTYPE_INT4 ? (size_t)w->cols / 2 : (size_t)w->cols * dtype_size(w->dtype);
}

#endif
