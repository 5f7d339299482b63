/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between host and CUDA kernels: the layout of weights, activations and the KV cache
 * in GPU memory, and the arguments of every kernel, a struct by value each (names and grids:
 * *_launch.h). gcc reads this file as C; nvcc and the tests' emulator read it as C++.
 *
 * Activations are row-major: `f32` is float32, `bf16` is BF16 in uint16_t. The residual stream is
 * float32; inputs of the matrix unit are BF16. Pointers are GPU addresses. */
#ifndef EY_CUDA_ABI_H
#define EY_CUDA_ABI_H

#include <stdbool.h>
#include <stdint.h>

typedef uint16_t bf16;

/* ---- weights ----
 *
 * A packed matrix is made of chunks of 16 rows by 64 bytes of columns (64 FP8 or int8 values, 32
 * BF16), in the order in which a warp reads it: chunk (rb, kc) begins at byte (rb · n_kc + kc) ·
 * 1024, n_kc = ceil(row bytes / 64). In it, half h (512 bytes) holds rows rb·16 + 8h + 0..7, and
 * there lane l = 4g + t (16 bytes) holds bytes kc·64 + 16t .. +15 of row g. So one 16-byte load per
 * lane brings 8 rows; a lane's 16 values are consecutive columns, of which a matrix instruction of
 * 16 columns takes 4 from each of the lanes t = 0..3: a matmul does not depend on the order of
 * columns if both operands have the same order. Rows are padded to 16 and columns to 64 bytes with
 * zeros.
 *
 * Int4 matrices are packed in the same way, two values to a byte: a chunk is 16 rows by 128
 * columns. Their group scales are 16-bit words, one per row and group of columns: those of chunk
 * (rb, kc) begin at word (rb · n_kc + kc) · 16 · per, per = 128/group, in the order
 * [8 rows][per][rows g, g + 8]: one load brings both words of a lane. A word holds a float16 scale,
 * whose last three bits are zero, shifted up by one, and the zero point in the low four bits:
 * weight = (value - zero) · scale · global scale. Padding words are 0. Where scales are F16 or may
 * be negative the words are wide, 32 bits: a whole float16 below, the zero point above it.
 *
 * Matrices that the fast kernels do not take (other dtypes, a number of columns that is no multiple
 * of 16 for FP8 or of 8 for BF16, int4 with reordered columns or with scales other than BF16 and
 * F16) stay row-major as tensor/tensor.h has them, and go through matmul_fallback, or are made BF16
 * for a GEMM. */
enum { PACK_ROWS = 16, PACK_BYTES = 64, PACK_CHUNK = PACK_ROWS * PACK_BYTES, SCALE_BLOCK = 128 };

/* E8M0 is only for scales; the types after it are GGUF's, in the layout of gguf_layout.h. */
enum kernel_dtype {
    K_F32,
    K_F16,
    K_BF16,
    K_FP8,
    K_INT8,
    K_INT4,
    K_UINT8,
    K_FP4,
    K_MXFP8,
    K_E8M0,
#define GGUF_TYPE(id, ...) K_##id,
#include "kernels/cuda/common/gguf_types.def"
#undef GGUF_TYPE
    KERNEL_DTYPES
};

struct dev_matrix {
    const void *data;
    const float *scale; /* FP8: [ceil(rows/128), ceil(cols/128)]; int8: [rows]; otherwise NULL */
    int32_t rows, cols;
    int32_t dtype; /* enum kernel_dtype */
    int32_t packed;
    const void *group_scales; /* int4; otherwise NULL */
    int32_t groups_per_128;   /* group scales per 128 columns of a row: 1, 2 or 4 */
    float global_scale;       /* int4 and GGUF: a factor of the whole matrix */
    float f16_factor;         /* GGUF: a power of two that keeps the largest value within float16 */
    const float *row_scale;   /* FP8: [rows], applied in addition to scale; or NULL */
    /* ---- of row-major matrices in groups, as in struct tensor ---- */
    const void *row_group_scale; /* [rows, cols / group_size] of scale_dtype */
    const void *row_group_zero;  /* int4: words for 8 rows; uint8: bytes; or NULL */
    const int32_t *place;        /* position of each column; NULL if columns are in order */
    int32_t group_size, scale_dtype;
    int32_t wide_scales;       /* packed int4: scale words have 32 bits */
    float multiplier, divisor; /* of all values; 0 if none */
};

#ifdef __CUDACC__
__host__ __device__
#endif
    static inline int64_t
    packed_chunks(int64_t row_bytes)
{
    return (row_bytes + PACK_BYTES - 1) / PACK_BYTES;
}

/* Repacks row-major src[rows, row_bytes] to rows first_row .. first_row + rows - 1 of the matrix at
 * dst; first_row is a multiple of 16. */
struct repack_args {
    const uint8_t *src;
    uint8_t *dst; /* the whole packed matrix */
    int32_t first_row, rows;
    int64_t row_bytes;
    uint32_t *found_nan; /* FP8: set to 1 if a value is NaN (the fast kernels read it as 480); may
                            be NULL */
    int32_t from_f16;    /* values are F16 and are rounded to BF16 */
};

/* Repacks rows of a file's GGUF blocks to the layout of gguf_layout.h; rows as above. */
struct repack_gguf_args {
    const uint8_t *src;
    uint8_t *dst;
    int32_t first_row, rows, cols;
    int32_t dtype; /* enum kernel_dtype */
    int64_t row_bytes;
};

/* Quantizes a BF16 matrix to packed int8 rows: value ≈ int8 · scale[row], scale = max|row| / 127.
 * rows as in repack_args. */
struct quantize_int8_args {
    const bf16 *src;
    uint8_t *dst;
    float *scale;
    int32_t first_row, rows, cols;
};

/* Unpacks rows first_row .. first_row + rows - 1 of any matrix to a packed BF16 matrix of that many
 * rows; first_row is a multiple of 16. */
struct unpack_args {
    struct dev_matrix w;
    uint8_t *dst;
    int32_t first_row, rows;
};

/* ---- matmul ----
 *
 * y[n, rows] = x[n, k] · wᵀ for up to three matrices side by side (q, k, v) or two taken together
 * (gate, up). */
enum { MAX_SEGMENTS = 3 };

enum cuda_epilogue {
    EPI_BF16,      /* y bf16 = x·wᵀ + bias */
    EPI_F32,       /* y f32  = x·wᵀ + bias */
    EPI_ADD,       /* y f32 += x·wᵀ + bias */
    EPI_SILU,      /* y[0] bf16 = silu(x·w[0]ᵀ) · (x·w[1]ᵀ) */
    EPI_GELU_TANH, /* y bf16 = gelu(x·wᵀ + bias) */
    EPI_GELU_ERF,
    EPI_KINDS
};

struct matmul_segment {
    struct dev_matrix w;
    const float *bias; /* [w.rows], or NULL */
    void *y;           /* row i begins at element ldy · i */
    int32_t ldy;
};

/* How a gemv kernel divides its work among warps, and its shared memory layout (gemv_launch.h). */
struct gemv_layout {
    int32_t n_blocks;   /* row blocks of 16 rows of all segments; gate and up together */
    int32_t n_chunks;   /* chunks of a row block */
    int32_t rounds;     /* rounds of a warp over its chunks, GEMV_DEPTH at a time */
    int32_t log_ahead;  /* 2^log_ahead chunks of a warp have x in shared memory at a time */
    int32_t warp_bytes; /* shared memory of a warp: x, later overwritten by sums */
    float one_over_k;
};

/* How a head kernel divides its work, and its shared memory layout (lm_head_launch.h). Two chunks
 * are a unit. Share i of a row block has units i, i + shares, i + 2 shares .. */
struct lm_head_layout {
    int32_t n_blocks;  /* of 16 rows, of all segments */
    int32_t n_chunks;  /* of a row block */
    int32_t shares;    /* shares of a row block; a block of threads has one warp per share, or fewer
                          warps, which take several shares one after the other */
    int32_t each;      /* units of a share */
    int32_t slots;     /* units of a warp in flight */
    int32_t staged;    /* units of a share that have x in shared memory at a time */
    int32_t log_ahead; /* log2(staged), rounded up */
    int32_t kept;      /* x stays in shared memory for all row blocks */
    int32_t x_at, x_bytes, sums_at,
        squares_at; /* offsets in shared memory; x_bytes: of a share if kept, otherwise of a warp */
    int32_t sums_bytes; /* distance of two buffers that row blocks use alternately for sums; 0 if
                           there is only one, and the next block must wait */
    float one_over_k;
};

struct matmul_args {
    struct matmul_segment segment[MAX_SEGMENTS];
    int32_t n_segments; /* EPI_SILU: 2, of which segment[0].y is written */
    int32_t n, k;       /* rows of x; columns of every w */
    const void *x; /* gemm and gemv_act: bf16; gemv_rms: f32; fallback: by x_f32; gemm_w8a8: e4m3 */
    int32_t ldx;
    const int32_t *gather; /* gemv and fallback: row i of x is row gather[i]; NULL for row i */
    /* RMSNorm of x's rows before the matmul (gemv_rms and fallback): x · norm / sqrt(mean(x²) +
     * eps); or NULL. */
    const float *norm;
    float eps;
    int32_t epilogue; /* enum cuda_epilogue, used by the host, gemm and matmul_fallback; gemv
                         kernels have it in their names */
    int32_t x_f32;    /* only for matmul_fallback */
    struct gemv_layout layout;     /* for gemv, filled by gemv_launch() */
    struct lm_head_layout lm_head; /* for the head kernels */
};

/* Quantizes rows of activations to e4m3: x bf16[n, k] ≈ y[n, k] · scale. The scale of each row and
 * SCALE_BLOCK columns is max|x| / 448: [ceil(k/SCALE_BLOCK), scale_rows], scale_rows a multiple of
 * 4 and at least n. A NaN makes its scale NaN. */
struct quantize_rows_args {
    const bf16 *x;
    uint8_t *y;
    float *scale;
    int32_t n, k, scale_rows;
};

/* A matmul of rows that quantize_rows made (matmul.x is e4m3) and packed FP8 matrices. */
struct w8a8_args {
    struct matmul_args matmul;
    const float *x_scale; /* [ceil(k/SCALE_BLOCK), scale_rows] */
    int32_t scale_rows;
};

/* Arranges rows of x for matmul_small and a weight dtype: x[n, k], bf16 or, with a norm, f32,
 * becomes y[k / 64, tokens, 64] in the order that matmul_small.cu describes. y is bf16, or float16
 * with a factor in `scale`. */
struct arrange_args {
    bf16 *y;
    float *scale; /* [tokens]; NULL if y is bf16 */
    const void *x;
    const float *norm; /* as in matmul_args */
    const int32_t *gather;
    float eps;
    int32_t n, k, ldx, tokens; /* tokens: n rounded up to the kernel's number of tokens */
    int32_t dtype;
};

/* A matmul of rows that arrange_rows made (matmul.x is arranged) and packed matrices. */
struct small_matmul_args {
    struct matmul_args matmul;
    const float *x_scale; /* see arrange_args.scale */
    float *partial;       /* [tiles, splits, tokens, rows of a tile] if there are several splits */
    uint32_t *arrived;    /* [tiles] zero before and after */
    int32_t keeps_parts;  /* partial is the result: the next reader of y adds it up */
};

/* Converts rows of x for matmul_small_sm90: row gather[i] of x, or row i without gather, bf16 or
 * (x_f32) f32, becomes two planes of e4m3 and their scales in y, as matmul_small_sm90.cu describes.
 * With a norm the planes are of x · norm, and squares f32[ceil(k/SCALE_BLOCK), tokens] receives the
 * sums of x². If splits is not 0, the sums left by a matmul with keeps_parts are first added to x.
 * If y is NULL, nothing else is done. */
struct planes_args {
    uint8_t *y;
    float *squares;
    void *x;
    const float *norm;
    const int32_t *gather;
    const float *partial; /* [ceil(k/SMALL_TILE), splits, part_tokens, SMALL_TILE] */
    int32_t x_f32, splits, part_tokens;
    int32_t n, k, ldx, tokens;
};

/* A matmul of the planes that make_planes wrote (matmul.x is its y) and packed FP8 matrices. */
struct planes_matmul_args {
    struct small_matmul_args small;
    const float *squares; /* NULL without a norm */
    int32_t stages;       /* stages of the ring in shared memory */
};

/* ---- rows ---- */

/* y bf16[n, width] = RMSNorm(x f32[*, width]) · w + b, or LayerNorm; b may be NULL. Row i is row
 * gather[i] of x, or row i without gather. */
struct norm_args {
    bf16 *y;
    const float *x, *w, *b;
    const int32_t *gather;
    int32_t n, width, layer; /* layer: LayerNorm instead of RMSNorm */
    float eps;
};

/* The merger's norm: tokens of `group` consecutive rows of x f32[n·group, width] become y bf16[n,
 * group·width] by LayerNorm of each row, or of the whole group together (w, b are [group·width]
 * then). */
struct merge_norm_args {
    bf16 *y;
    const float *x, *w, *b;
    int32_t n, width, group, grouped;
    float eps;
};

struct embed_args {
    float *x;                /* [n, hidden] */
    struct dev_matrix table; /* row-major BF16, F16 or F32 [vocabulary, hidden]; packed BF16 if it
                                is also the head; data is NULL if host_rows is used */
    const bf16
        *host_rows; /* [n, hidden] rows looked up by the host if the table is not on the GPU */
    const bf16 *features;
    const int32_t *token, *feature;
    int32_t n, hidden;
};

/* table f32[n, n_pairs, 2] = cos and sin of position[i][axis[j]] · frequency[j]. position is [n,
 * 3]; the product is computed in float32. */
enum { MAX_PAIRS = 128 };

struct rope_args {
    float *table;
    const int32_t *position;
    int32_t n, n_pairs;
    float frequency[MAX_PAIRS];
    uint8_t axis[MAX_PAIRS];
};

struct add_features_args {
    float *x;
    const bf16 *features;
    const int32_t *feature;
    int32_t n, hidden;
};

/* Initializes x f32[n, hidden] = bias + the position table, interpolated bilinearly with aligned
 * corners, at patches first .. first+n-1 (merge-block order) of a grid of rows x cols. */
struct position_args {
    float *x;
    const float *bias;       /* [hidden] */
    struct dev_matrix table; /* row-major [side², hidden] */
    int32_t side, rows, cols, merge, first, n, hidden;
};

/* Cuts patches first .. first+n-1 (merge-block order, `cols` per row) of an image to y bf16[n,
 * 3·temporal·side²]: (byte - offset) / scale by channel, [channel, temporal, side, side], every
 * temporal slice equal. rgb points to the first pixel row of patch row `first_row`. */
struct patchify_args {
    bf16 *y;
    const uint8_t *rgb;
    int32_t first, n, cols, first_row, side, temporal, merge;
    float offset[3], scale[3];
};

/* y bf16[n] = x f32[n] */
struct convert_bf16_args {
    bf16 *y;
    const float *x;
    int64_t n;
};

/* Rotates q and k of vision qkv bf16[*, 3·width] in place, rows first .. first+n-1; rope f32[n,
 * head_dim/2, 2] belongs to these rows. */
struct vision_rope_args {
    bf16 *qkv;
    const float *rope;
    int32_t first, n, heads, head_dim;
};

/* ---- the KV cache ----
 *
 * One layer: [block, kv head, K or V, KV_TOKENS, head_dim] of BF16 or e4m3 (unscaled). */
enum { KV_TOKENS = 64 };

struct kv_layer {
    void *data;
    int32_t n_kv_heads, head_dim, fp8;
};

/* Rows of one step on the GPU; see backend/step.h. */
struct dev_batch {
    const int32_t *seq, *index; /* [n] */
    const int32_t *block_table; /* [n_seqs, max_blocks] */
    int32_t n, max_blocks;
};

/* Processes raw q, k and v in qkv f32[n, (n_heads + 2·n_kv_heads)·head_dim]: RMSNorm of each head
 * of q and k if norms are given, rotation, q to bf16[n, n_heads·head_dim], k and v into the cache
 * at each row's slot. */
struct kv_append_args {
    bf16 *q;
    const float *qkv;
    const float *q_norm, *k_norm, *rope; /* rope f32[n, head_dim/2, 2] */
    struct kv_layer kv;
    struct dev_batch batch;
    int32_t n_heads;
    float eps;
};

/* Causal attention of a prefill chunk. A tile is up to ATTENTION_ROWS consecutive rows of one
 * sequence: tile i is rows tile[2i] .. tile[2i] + tile[2i+1] - 1. Row r attends to slots
 * 0..index[r] of its sequence; within a tile index grows by one per row. */
enum { ATTENTION_ROWS = 64 };

struct attention_args {
    bf16 *o; /* [n, n_heads·head_dim] */
    const bf16 *q;
    struct kv_layer kv;
    struct dev_batch batch;
    const int32_t *tile;
    int32_t n_tiles, n_heads;
    float scale;    /* 1/sqrt(head_dim) */
    int32_t window; /* number of keys that a row attends to, including its own; 0 for no limit */
};

/* Decode attention of one token each of n sequences: norms and rotates q and k, stores k and v in
 * the cache, and attends, all from raw q, k and v. Keys of each KV head of a sequence are split
 * over up to `splits` blocks of threads, or (attention_decode_many) those of all sequences over
 * `splits` blocks; the last block to arrive merges. `arrived` is zero before and after. Batch,
 * norms and old keys and values are read before the previous kernel has ended, so an earlier kernel
 * must have written them. */
struct attention_decode_args {
    bf16 *o;          /* [n, n_heads·head_dim] */
    const float *qkv; /* [n, (n_heads + 2·n_kv_heads)·head_dim] raw q, k and v */
    const float *q_norm, *k_norm, *rope;
    struct kv_layer kv;
    struct dev_batch batch;
    float *partial; /* sum of values, maximum, sum of weights: [n, n_heads, splits, head_dim + 2];
                       (many) [splits, 2, n_heads / n_kv_heads, head_dim + 2]: of the KV head that
                       began in an earlier block, and of the one that continues in a later block */
    uint32_t *arrived; /* [n, n_kv_heads] */
    int32_t n_heads, splits;
    float scale, eps;
};

/* Full attention of vision rows first .. first+n-1 over rows 0 .. n_keys-1 of qkv bf16[*,
 * 3·heads·head_dim]. */
struct attention_vision_args {
    bf16 *o; /* [n, heads·head_dim] */
    const bf16 *qkv;
    int32_t first, n, n_keys, heads, head_dim;
    float scale;
};

/* The same for several images: rows first_row .. first_row+n-1 of qkv attend to its rows first_key
 * .. first_key+n_keys-1; results go to o from row first_out on. A segment's blocks of threads begin
 * with first_tile. */
enum { VISION_SM90_SEGMENTS = 32 };
struct attention_vision_segment {
    int32_t first_row, n, first_key, n_keys, first_out, first_tile;
};
struct attention_vision_sm90_args {
    bf16 *o;
    const bf16 *qkv;
    int32_t heads, n_segments;
    float scale;
    struct attention_vision_segment segment[VISION_SM90_SEGMENTS];
};

/* ---- from logits to top-k logits ----
 *
 * For each of n rows of logits f32[n, vocabulary]: the TOPK best (ids with the highest logits, the
 * lower id among equals, best first), and log(sum(exp(logit))). Two launches: topk_part by `parts`
 * blocks of threads a row, topk_merge by one. */
enum { TOPK = 64 };

struct topk_logit {
    float logit;
    int32_t id;
};

struct topk_args {
    const float *logits;
    struct topk_logit *part; /* [n, parts, TOPK] */
    float *part_sum;         /* [n, parts, 2]: maximum, sum of exp(logit - maximum) */
    struct topk_logit *best; /* [n, TOPK] */
    float *log_sum;          /* [n] */
    int32_t n, vocabulary, parts;
};

/* Rescores the top-k logits of n rows of an 8-bit head from its BF16 rows in host memory, as
 * backend/rescore.h does, and sorts them. A block is one warp, for one logit. */
struct rescore_args {
    struct topk_logit *best; /* [n, TOPK], in and out */
    uint32_t *arrived;       /* [n] zero before and after */
    const bf16 *rows; /* [vocabulary, cols] row-major, aligned to 8 bytes; cols a multiple of 4 */
    const float *x, *norm; /* [*, cols], [cols] */
    const int32_t *gather; /* row i belongs to row gather[i] of x */
    int32_t n, cols;
    float eps;
};

/* Samples tokens of n rows from their top-k logits as the engine's sampler does when only
 * temperature, top_k, top_p and min_p are set (src/engine/sample/sampler.c): token[i] continues row
 * i. One warp per row. */
struct sample_params {
    uint64_t seed, step;
    float temperature, top_p, min_p; /* temperature 0 takes the best */
    int32_t top_k;                   /* 1 .. TOPK */
};

struct sample_args {
    const struct topk_logit *best;      /* [n, TOPK] */
    const struct sample_params *params; /* [n] */
    int32_t *token, *sampled; /* [n] equal: the next step's input, and a copy for the host */
    int32_t n;
};

/* Copies a few words between GPU memory and pinned host memory in either direction: between two
 * kernels it is faster than the copy engine. */
struct copy_words_args {
    uint32_t *to;
    const uint32_t *from;
    int32_t n;
};

/* Runs `times` rounds of matrix instructions in every warp. */
struct mma_peak_args {
    uint32_t *out;
    int32_t times;
};

/* Reads `bytes` (a multiple of 16) `times` times to measure read bandwidth, and writes one number,
 * so that the loads are not optimized away. */
struct read_memory_args {
    const void *data;
    uint32_t *out;
    int64_t bytes;
    int32_t times;
};

#endif
