/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor: a dtype, a shape and memory that somebody else owns. */
#ifndef EY_TENSOR_TENSOR_H
#define EY_TENSOR_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a type may be used in a checkpoint. */
enum weight_use {
    NO_WEIGHT,
    PLAIN_WEIGHT,    /* its values are plain numbers */
    QUANTIZED_WEIGHT /* for matrices only */
};

/* Scales that are stored apart from the values. */
enum scale_layout {
    NO_SCALES,
    BLOCK_SCALES, /* one for FP8_BLOCK x FP8_BLOCK values */
    GROUP_SCALES  /* one, and maybe a zero point, per group of columns of a row */
};

/* DTYPE_NONE, DTYPE_F64 ...: the rows of types.def. */
enum dtype {
#define TENSOR_TYPE(id, ...) DTYPE_##id,
#include "tensor/types.def"
#undef TENSOR_TYPE
};

struct dtype_traits {
    const char *name;       /* in safetensors files; NULL if it has none */
    const char *label;      /* for people */
    uint16_t values, bytes; /* values and bytes of a block */
    enum weight_use use;
    enum scale_layout scales;
};

const struct dtype_traits *dtype_info(enum dtype d);
/* Returns the type of this name in safetensors files, or DTYPE_NONE. */
enum dtype dtype_from_name(const char *name);
/* Appends the names of the types whose use is in `uses` (bits 1 << use) to the list in `text`: "A,
 * B or C". */
void dtype_append_names(char *text, size_t size, unsigned uses);

/* Returns the bytes of one value; 0 if a block has several. */
static inline size_t dtype_size(enum dtype d)
{
    static const uint8_t size[] = {
#define TENSOR_TYPE(id, name, values, bytes, ...) (values) == 1 ? (bytes) : 0,
#include "tensor/types.def"
#undef TENSOR_TYPE
    };
    return (size_t)d < sizeof(size) ? size[d] : 0;
}

/* Whether the values are in blocks of a GGUF file (tensor/gguf_blocks.h). */
static inline bool dtype_is_gguf(enum dtype d)
{
    return d >= DTYPE_Q4_0 && d <= DTYPE_GGUF_NVFP4;
}

struct weight_recipe;

/* A weight matrix [rows, cols], row-major, used as y = x · Wᵀ; a vector is [1, cols]. Data may have
 * any alignment, as in files: read it with memcpy or unaligned loads. */
struct tensor {
    const void *data;
    enum dtype dtype;
    int64_t rows, cols;
    const float
        *scale; /* block FP8: [ceil(rows/128), ceil(cols/128)]; int8: [rows]; otherwise NULL */
    const float *row_scale; /* [rows] of block FP8, applied in addition to scale; or NULL */
    /* Groups of columns: weight = (value - zero) · scale for int4 and uint8, value · scale for FP4
     * and MXFP8 (docs/guides/quantization.md). Scales and zeros may have any alignment. */
    int group_size; /* columns of a group, a divisor of cols; int4: 32, 64 or 128; 0 without groups
                     */
    enum dtype scale_dtype; /* of group scales: F16, BF16, F32, F8_E4M3, F8_E8M0; NONE means BF16 */
    bool signed_scales;     /* some scales may be negative */
    const void *group_scale;   /* [rows, cols/group] */
    const void *group_zero;    /* int4: 32-bit words [ceil(rows/8), cols/group] with row r at bit
                                  4·(r % 8) of word [r/8, g]; uint8: bytes [rows, cols/group] */
    float multiplier, divisor; /* of all values, in float32 (NVFP4 has one of them); 0 if none */
    /* [cols] the place of each column in a stored row. A column belongs to the group of its place.
     * NULL if columns are stored in order. */
    const int32_t *place;
    const float *factor; /* GGUF's NVFP4: a factor of all values; otherwise NULL */
    /* On-load quantization recipe, or NULL. If set, dtype and group describe the result, and data
     * only has to be non-NULL. */
    const struct weight_recipe *recipe;
    int64_t recipe_row; /* index of row 0 in the whole repacked matrix (recipe->stored) */
};

struct stored_weight;

/* How a matrix is made while it is loaded: quantized from `source`, or converted from another
 * layout with the same values. */
struct weight_recipe {
    struct tensor source;
    const struct stored_weight *stored; /* checkpoint/repack.h; NULL if it is quantized */
    const float
        *importance; /* [cols] weight of a squared error in each column; NULL if all are equal */
};

enum {
    FP8_BLOCK = 128,
    ZEROS_PER_WORD = 8 /* rows whose 4-bit zeros share a word */,
    BF12_ROWS = 16 /* rows of a BF12 block (tensor/bf12.h) */
};

static inline int64_t weight_groups(const struct tensor *w)
{
    return w->cols / w->group_size;
}

static inline size_t weight_scale_size(const struct tensor *w)
{
    return w->scale_dtype ? dtype_size(w->scale_dtype) : sizeof(uint16_t);
}

static inline bool weight_scales_are_bf16(const struct tensor *w)
{
    return w->scale_dtype == DTYPE_NONE || w->scale_dtype == DTYPE_BF16;
}

/* Return the bytes of the scales and of the zeros of a matrix in groups. */
static inline size_t weight_group_scale_bytes(const struct tensor *w)
{
    return (size_t)(w->rows * weight_groups(w)) * weight_scale_size(w);
}

static inline size_t weight_group_zero_bytes(const struct tensor *w)
{
    if (w->dtype == DTYPE_UINT8) return (size_t)(w->rows * weight_groups(w));
    if (w->dtype != DTYPE_INT4) return 0;
    return (size_t)((w->rows + ZEROS_PER_WORD - 1) / ZEROS_PER_WORD * weight_groups(w)) *
           sizeof(uint32_t);
}

/* Returns the FP8 blocks that cover n rows or columns. */
static inline int64_t fp8_blocks(int64_t n)
{
    return (n + FP8_BLOCK - 1) / FP8_BLOCK;
}

/* Returns the bytes of the float32 block scales of a matrix. */
static inline size_t weight_block_scale_bytes(const struct tensor *w)
{
    return (size_t)fp8_blocks(w->rows) * (size_t)fp8_blocks(w->cols) * sizeof(float);
}

/* Returns the block scales of FP8 row `row`, or NULL. */
static inline const float *weight_row_scale(const struct tensor *w, int64_t row)
{
    return w->scale ? w->scale + row / FP8_BLOCK * fp8_blocks(w->cols) : NULL;
}

/* Whether the matrix has block scales, or will have them once made by its recipe. */
static inline bool weight_has_block_scales(const struct tensor *w)
{
    return w->scale || (w->recipe && dtype_info(w->dtype)->scales == BLOCK_SCALES);
}

/* Returns the number of blocks of the matrix's BF12 form. */
static inline size_t weight_bf12_blocks(const struct tensor *w)
{
    return ((size_t)w->rows + BF12_ROWS - 1) / BF12_ROWS;
}

/* Returns how many rows share scales or a word of zeros: parts of a matrix must begin at a
 * multiple of it. */
static inline int weight_row_unit(const struct tensor *w)
{
    if (w->recipe && w->recipe->stored) return 1;
    if (w->dtype == DTYPE_F8_E4M3) return w->row_scale ? 1 : FP8_BLOCK;
    return w->dtype == DTYPE_INT4 ? ZEROS_PER_WORD : 1;
}

/* Whether kernels convert the type on the fly instead of multiplying it directly. */
static inline bool dtype_is_rare(enum dtype d)
{
    return d == DTYPE_UINT8 || d == DTYPE_FP4 || d == DTYPE_MXFP8;
}

/* Returns the bytes of one row's values. */
static inline size_t weight_row_bytes(const struct tensor *w)
{
    const size_t size = dtype_size(w->dtype); /* fast path: kernels call this for every few rows */
    if (size) return (size_t)w->cols * size;
    const struct dtype_traits *type = dtype_info(w->dtype);
    return (size_t)w->cols / type->values * type->bytes;
}

/* Returns the bytes of all values, without separate scales. */
static inline size_t weight_data_bytes(const struct tensor *w)
{
    return (size_t)w->rows * weight_row_bytes(w);
}

#endif
