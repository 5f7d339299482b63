/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of everything that the CUDA backend allocates on the GPU: pure functions, used by plans
 * without a GPU and by the real backend. */
#ifndef EY_CUDA_SIZES_H
#define EY_CUDA_SIZES_H

#include "backend/backend.h"
#include "kernels/cuda/common/gguf_layout.h"

enum {
    CUDA_ALIGN = 256,        /* alignment of allocations in the arena */
    SMALL_ROWS = 128,        /* most rows of the decode kernels: a step of that many sequences */
    LM_HEAD_ROWS = 8,        /* most rows of the head's own kernels */
    MAX_SPLITS = 64,         /* most splits of one sequence's keys in decode attention */
    TOPK_PARTS = 64,         /* most blocks of threads per row of logits */
    UPLOAD_BYTES = 16 << 20, /* one buffer of the pinned ring for uploads */
    UPLOAD_BUFFERS = 2,
    LOAD_STAGING =
        UPLOAD_BUFFERS *
        UPLOAD_BYTES, /* at the arena's end while loading; permanent if weights are streamed */
    MAX_FP8_MATRICES = 4096,
    FLAG_BYTES = MAX_FP8_MATRICES * (int)sizeof(uint32_t), /* flags of matrices with NaN */
    UNPACK_BYTES = 32 << 20, /* bytes of int4 matrices unpacked to BF16 at a time for a GEMM */
    RAW_ROWS = 1024,         /* rows of raw q, k and v at a time */
    QUANTIZED_ROWS = 1024,   /* prompt rows quantized to e4m3 at a time */
    EMBEDDING_LOOKUP_BYTES =
        64 << 10,           /* bytes of embedding rows that the host looks up at a time */
    MAX_IMAGE_ASPECT = 400, /* most, in blocks of patches: 200 is allowed, doubled for rounding */
};

/* Limits of the kernels: a model beyond them is refused when it is opened. */
enum {
    CUDA_MAX_HEAD_DIM = 256,                  /* by HEAD_DIM_MAX and MAX_PAIRS */
    CUDA_MAX_VOCABULARY = TOPK_PARTS * 10000, /* a part of a row must fit into shared memory */
    CUDA_MAX_HIDDEN = EMBEDDING_LOOKUP_BYTES / (int)sizeof(bf16),
};
bool cuda_check_shapes(const struct text_shape *text, const struct vision_shape *vision, ey_err *e);

static inline size_t cuda_aligned(size_t bytes)
{
    return (bytes + CUDA_ALIGN - 1) / CUDA_ALIGN * CUDA_ALIGN;
}

/* Whether it is a norm or bias, which is float32 on the GPU. */
bool cuda_is_vector(const struct tensor *w);
/* Whether the fast kernels take it, so that it is packed; otherwise it stays row-major. */
bool cuda_packs(const struct tensor *w);
/* Returns the kernel type of a GGUF matrix that stays packed, or K_F32 if it is dequantized. */
enum kernel_dtype cuda_gguf_dtype(enum dtype d);
/* Return the bytes of the elements, packed or row-major, and of an int4 matrix's group scales. */
size_t cuda_element_bytes(const struct tensor *w);
size_t cuda_group_scale_bytes(const struct tensor *w);
/* Whether an int4 matrix's words of scale and zero are wide (abi.h). */
bool cuda_has_wide_scales(const struct tensor *w);
/* Returns the bytes of scales, zeros and column order of a row-major matrix in groups. */
size_t cuda_row_group_bytes(const struct tensor *w);
size_t cuda_weight_bytes(const struct backend *be, const struct tensor *w,
                         enum placement placement);
size_t cuda_kv_bytes(const struct backend *be, const struct kv_shape *shape);

/* The backend's own buffers, in memory order. */
enum cuda_scratch {
    SCRATCH_NORMED, /* bf16 [max_rows, widest matmul input] */
    SCRATCH_WIDE, /* f32 [RAW_ROWS, q and k and v], or bf16 intermediates of a merger, or embedding
                     rows from the host */
    SCRATCH_RAW,  /* f32 [rows of a decode step, q and k and v] */
    SCRATCH_PARTIAL,   /* f32: partial results of decode attention */
    SCRATCH_ARRIVED,   /* u32 [max_seqs, heads] */
    SCRATCH_TOPK_PART, /* top-k logits of parts of rows */
    SCRATCH_TOPK_PART_SUM,
    SCRATCH_STEP_OUTPUT,   /* a step's results for the host: struct step_output_layout */
    SCRATCH_SMALL,         /* inputs of a decode step */
    SCRATCH_LARGE,         /* inputs of any other step */
    SCRATCH_ARRANGED,      /* x as matmul_small or matmul_small_sm90 takes it */
    SCRATCH_X_SCALE,       /* f32 [SMALL_MOST_TOKENS] its scales */
    SCRATCH_PARTS,         /* f32: partial sums of matmul_small */
    SCRATCH_PARTS_ARRIVED, /* u32 [tiles with split columns] */
    SCRATCH_POSITIONS,     /* positions of patches */
    SCRATCH_UNPACKED,      /* [UNPACK_BYTES], or empty */
    SCRATCH_X_FP8, /* e4m3 [QUANTIZED_ROWS, widest matmul input of the text model], or empty */
    SCRATCH_X_FP8_SCALE, /* f32 [its column blocks, QUANTIZED_ROWS] */
    SCRATCH_BUFFERS
};
/* Returns the most rows for which matmul_small and similar kernels have scratch: enough for one row
 * of each sequence, and for short prompts. */
int cuda_few_rows(const struct backend_limits *limits);
/* Returns the columns of the text model's widest matmul input. */
int cuda_widest_text_input(const struct backend_limits *limits);
void cuda_scratch_sizes(size_t bytes[SCRATCH_BUFFERS], const struct backend_limits *limits);
/* Returns the bytes of all buffers, one after the other. */
size_t cuda_buffer_bytes(const struct backend_limits *limits);
/* Returns the bytes of the plan's scratch: these buffers, and the flags of FP8 matrices, which
 * exist from loading on. */
size_t cuda_scratch_bytes(const struct backend *be, const struct backend_limits *limits);

/* Byte offsets in a step's results for the host: top-k logits [max_logits, TOPK] come first, then
 * log_sum f32[max_logits] and sampled i32[max_logits]. */
struct step_output_layout {
    size_t log_sum, sampled, total;
};
struct step_output_layout cuda_step_output_layout(const struct backend_limits *limits);

/* Offsets, in int32 elements, of the parts of a step of at most `rows` rows in one buffer. */
struct step_layout {
    size_t token, feature, seq, index, position, logits_row, tile, sample_params, block_table,
        total;
};
struct step_layout cuda_step_layout(int rows, const struct backend_limits *limits);

/* Creates a simulated GPU, which only computes sizes. */
bool backend_cuda_create_simulated(struct backend **be, ey_err *e);

#endif
