/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of all that the CUDA backend allocates on the GPU: pure functions, the same for planning
 * without a GPU and for the real backend. */
#ifndef EY_CUDA_SIZES_H
#define EY_CUDA_SIZES_H

#include "backend/backend.h"
#include "kernels/cuda/common/gguf_layout.h"

enum {
    CUDA_ALIGN = 256,        /* every allocation in the arena */
    SMALL_ROWS = 128,        /* rows of the decode kernels: one step of that many sequences */
    LM_HEAD_ROWS = 8,        /* rows of the head's own kernels */
    MAX_SPLITS = 64,         /* of one sequence's keys in decode attention */
    TOPK_PARTS = 64,         /* blocks of threads that look through one row of logits */
    UPLOAD_BYTES = 16 << 20, /* one place of the pinned ring that everything large goes through */
    UPLOAD_BUFFERS = 2,
    LOAD_STAGING =
        UPLOAD_BUFFERS *
        UPLOAD_BYTES, /* of the arena's end, while loading; for ever where weights are streamed */
    MAX_FP8_MATRICES = 4096,
    FLAG_BYTES = MAX_FP8_MATRICES * (int)sizeof(uint32_t), /* whether one has a NaN */
    UNPACK_BYTES = 32 << 20,           /* of int4 matrices as BF16 at a time, for a GEMM */
    RAW_ROWS = 1024,                   /* rows whose raw q, k and v are there at a time */
    QUANTIZED_ROWS = 1024,             /* rows of prompts that are e4m3 at a time */
    EMBEDDING_LOOKUP_BYTES = 64 << 10, /* of embedding rows that the host looks up at a time */
    MAX_IMAGE_ASPECT =
        400, /* of images, in blocks of patches: the 200 that they may have, and rounding */
};

/* What the kernels take: a model with more is refused when it is opened. */
enum {
    CUDA_MAX_HEAD_DIM = 256,                  /* HEAD_DIM_MAX, and MAX_PAIRS angles */
    CUDA_MAX_VOCABULARY = TOPK_PARTS * 10000, /* a part of a row lies in shared memory */
    CUDA_MAX_HIDDEN = EMBEDDING_LOOKUP_BYTES / (int)sizeof(bf16),
};
bool cuda_check_shapes(const struct text_shape *text, const struct vision_shape *vision, ey_err *e);

static inline size_t cuda_aligned(size_t bytes)
{
    return (bytes + CUDA_ALIGN - 1) / CUDA_ALIGN * CUDA_ALIGN;
}

/* Norms and biases: float32 on the GPU. */
bool cuda_is_vector(const struct tensor *w);
/* Whether the fast kernels can take it; otherwise it stays row-major. */
bool cuda_packs(const struct tensor *w);
/* The type of a GGUF matrix that stays packed; K_F32: what it becomes else. */
enum kernel_dtype cuda_gguf_dtype(enum dtype d);
/* Bytes of the elements, packed or row-major; and of an int4 matrix' group scales. */
size_t cuda_element_bytes(const struct tensor *w);
/* Whether its words of scale and zero are wide (abi.h). */
bool cuda_has_wide_scales(const struct tensor *w);
size_t cuda_group_scale_bytes(const struct tensor *w);
/* Scales, zeros and places of a matrix in groups that stays row-major. */
size_t cuda_row_group_bytes(const struct tensor *w);
size_t cuda_weight_bytes(const struct backend *be, const struct tensor *w,
                         enum placement placement);
size_t cuda_kv_bytes(const struct backend *be, const struct kv_shape *shape);

/* The backend's own buffers, in the order in which they lie. */
enum cuda_scratch {
    SCRATCH_NORMED,  /* bf16 [max_rows, widest matmul input] */
    SCRATCH_WIDE,    /* f32 [RAW_ROWS, q and k and v], or bf16 the middle of a merger, or embedding
                        rows from the host */
    SCRATCH_RAW,     /* f32 [rows of a decode step, q and k and v] */
    SCRATCH_PARTIAL, /* f32: decode attention's */
    SCRATCH_ARRIVED, /* u32 [SMALL_ROWS, kv heads] */
    SCRATCH_TOPK_PART, /* top-k logits of parts of rows */
    SCRATCH_TOPK_PART_SUM,
    SCRATCH_STEP_OUTPUT,   /* what of a step goes to the host: struct step_output_layout */
    SCRATCH_SMALL,         /* a decode step */
    SCRATCH_LARGE,         /* any other's */
    SCRATCH_ARRANGED,      /* x as matmul_small or matmul_small_sm90 takes it */
    SCRATCH_X_SCALE,       /* f32 [SMALL_MOST_TOKENS], of it */
    SCRATCH_PARTS,         /* f32: matmul_small's */
    SCRATCH_PARTS_ARRIVED, /* u32 [tiles of it whose columns are split] */
    SCRATCH_POSITIONS,     /* of patches */
    SCRATCH_UNPACKED,      /* [UNPACK_BYTES], or nothing */
    SCRATCH_X_FP8,       /* e4m3 [QUANTIZED_ROWS, widest matmul input of the text model], or nothing
                          */
    SCRATCH_X_FP8_SCALE, /* f32 [blocks of columns of that, QUANTIZED_ROWS] */
    SCRATCH_BUFFERS
};
/* Up to how many rows there is room for matmul_small and its like: as many as sequences, and short
 * prompts. */
int cuda_few_rows(const struct backend_limits *limits);
/* Columns of the widest matmul input of the text model. */
int cuda_widest_text_input(const struct backend_limits *limits);
void cuda_scratch_sizes(size_t bytes[SCRATCH_BUFFERS], const struct backend_limits *limits);
/* All of them, as they lie one after the other. */
size_t cuda_buffer_bytes(const struct backend_limits *limits);
/* What the plan calls scratch: these, and the flags of FP8 matrices, which are there from loading
 * on. */
size_t cuda_scratch_bytes(const struct backend *be, const struct backend_limits *limits);

/* Bytes of what of a step goes to the host, for at most max_logits rows, in one piece. */
struct step_output_layout {
    size_t log_sum, sampled,
        total; /* behind the top-k logits [max_logits, TOPK]: f32 and i32 [max_logits] */
};
struct step_output_layout cuda_step_output_layout(const struct backend_limits *limits);

/* int32 places of a step of at most `rows` rows in one buffer. */
struct step_layout {
    size_t token, feature, seq, index, position, logits_row, tile, sample_params, block_table,
        total;
};
struct step_layout cuda_step_layout(int rows, const struct backend_limits *limits);

/* A simulated GPU: it answers questions about sizes only. */
bool backend_cuda_create_simulated(struct backend **be, ey_err *e);

#endif
