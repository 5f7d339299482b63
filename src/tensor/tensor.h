/* SPDX-License-Identifier: Apache-2.0 */
/* What a tensor is to everyone: a dtype, a shape and a place in memory that somebody else owns. */
#ifndef EY_BACKEND_TENSOR_H
#define EY_BACKEND_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a matrix or vector of a type can be in a checkpoint. */
enum weight_use {
    NO_WEIGHT,
    PLAIN_WEIGHT,    /* its values are numbers as they are */
    QUANTIZED_WEIGHT /* matrices alone */
};

/* Scales that lie apart from the values. */
enum scale_layout {
    NO_SCALES,
    BLOCK_SCALES, /* one for FP8_BLOCK x FP8_BLOCK values */
    GROUP_SCALES  /* one, and a zero point, for a group of columns in a row */
};

/* DTYPE_NONE, DTYPE_F64 ...: the rows of types.def. */
enum dtype {
#define TENSOR_TYPE(id, ...) DTYPE_##id,
#include "tensor/types.def"
#undef TENSOR_TYPE
};

struct dtype_traits {
    const char *name;       /* in safetensors files; NULL: none names it */
    const char *label;      /* for people */
    uint16_t values, bytes; /* of a block */
    enum weight_use use;
    enum scale_layout scales;
};

const struct dtype_traits *dtype_info(enum dtype d);
/* The type that files call so; DTYPE_NONE: there is none. */
enum dtype dtype_from_name(const char *name);
/* Adds the names of the types whose use is one of `uses` (bits 1 << use) to the list in `text`:
 * "A, B or C". */
void dtype_append_names(char *text, size_t size, unsigned uses);

/* Bytes of one value; 0 where a block has several. */
static inline size_t dtype_size(enum dtype d)
{
    static const uint8_t size[] = {
#define TENSOR_TYPE(id, name, values, bytes, ...) (values) == 1 ? (bytes) : 0,
#include "tensor/types.def"
#undef TENSOR_TYPE
    };
    return (size_t)d < sizeof(size) ? size[d] : 0;
}

/* Whether its values lie in blocks of a GGUF file (tensor/gguf_blocks.h). */
static inline bool dtype_is_gguf(enum dtype d)
{
    return d >= DTYPE_Q4_0 && d <= DTYPE_GGUF_NVFP4;
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
    const float *factor;     /* one number that all values are multiplied with; NULL: none */
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

/* Blocks that cover n rows or columns. */
static inline int64_t fp8_blocks(int64_t n)
{
    return (n + FP8_BLOCK - 1) / FP8_BLOCK;
}

/* Bytes of one float32 scale for each block of a matrix. */
static inline size_t weight_block_scale_bytes(const struct tensor *w)
{
    return (size_t)fp8_blocks(w->rows) * (size_t)fp8_blocks(w->cols) * sizeof(float);
}

/* Multipliers of the blocks of FP8 row `row`, or NULL. */
static inline const float *weight_row_scale(const struct tensor *w, int64_t row)
{
    return w->scale ? w->scale + row / FP8_BLOCK * fp8_blocks(w->cols) : NULL;
}

/* Whether its blocks have scales, or will when it is made. */
static inline bool weight_has_block_scales(const struct tensor *w)
{
    return w->scale || (w->recipe && dtype_info(w->dtype)->scales == BLOCK_SCALES);
}

/* Blocks of its BF12 form. */
static inline size_t weight_bf12_blocks(const struct tensor *w)
{
    return ((size_t)w->rows + BF12_ROWS - 1) / BF12_ROWS;
}

/* Rows that share scales or a word of zeros: a part of a matrix begins at a multiple. */
static inline int weight_row_unit(const struct tensor *w)
{
    const enum scale_layout scales = dtype_info(w->dtype)->scales;
    return scales == BLOCK_SCALES ? FP8_BLOCK : scales == GROUP_SCALES ? ZEROS_PER_WORD : 1;
}

/* Bytes of one row's values. */
static inline size_t weight_row_bytes(const struct tensor *w)
{
    const size_t size = dtype_size(w->dtype); /* kernels ask for every few rows */
    if (size) return (size_t)w->cols * size;
    const struct dtype_traits *type = dtype_info(w->dtype);
    return (size_t)w->cols / type->values * type->bytes;
}

/* Bytes of all values, without scales that lie apart. */
static inline size_t weight_data_bytes(const struct tensor *w)
{
    return (size_t)w->rows * weight_row_bytes(w);
}

#endif
