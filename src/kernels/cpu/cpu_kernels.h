/* SPDX-License-Identifier: Apache-2.0 */
/* The hot loops of the cpu backend: a kernel set for each tier (isa/), chosen for the machine by
 * cpu_kernels_for(). Arithmetic by weights:
 *
 *   tier               BF16, int8   FP8            int4         GGUF            images' BF16
 *   generic            float32      float32        float32      float32         float32
 *   AVX2               float32      int16 (most)   int16        int16 (most)    int16
 *   AVX-512            float32      int16 (most)   int16        int16 (most)    int16
 *   AVX-512 with BF16  BF16         int16 (most)   int16        int16 (most)    BF16
 *   AMX                BF16 tiles   BF16 tiles     int16 *      int16 (most)    BF16 tiles
 *
 * (* for many rows of x, the two bytes of an int16 are multiplied separately, in tiles of bytes)
 *
 * Every function gives each row the same bits whatever the other rows of the call: sums run over k,
 * or over keys, in an order that depends neither on the number of rows nor on the tile. */
#ifndef EY_KERNELS_CPU_KERNELS_H
#define EY_KERNELS_CPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/tensor.h"

enum {
    CPU_N_ALIGN = 16,               /* sums are written for multiples of this many weight rows */
    CPU_PANEL_NR = 2 * CPU_N_ALIGN, /* panels hold multiples of this many weight rows */
    CPU_GEMV_ROWS = 8,              /* rows of x that GEMV takes on every tier */
    CPU_GEMV_MAX_ROWS = 32,         /* packed rows of a gemv() tile, remainders included */
    CPU_GEMM_MAX_ROWS = 60,         /* packed rows of a gemm() tile */
    CPU_N_BLOCK = FP8_BLOCK,        /* weight rows of an N-block, which share block scales */
    CPU_K_STEP = 64,          /* packed rows and panels are zero-padded to multiples of this */
    CPU_PREFETCH_BYTES = 512, /* how far a stream of weights is prefetched */
    CPU_KEY_BLOCK = 64,       /* keys of an attention block; KV_BLOCK */
    CPU_Q_ROWS = 32,          /* query rows of an attention tile */
    CPU_HEAD_PAD = 16,        /* rows of values are read in steps of this many elements */
    CPU_INT16_KC = 2048,      /* columns of an int16 panel */
    /* bytes after an int16 panel: a step for each weight row and block of scales */
    CPU_INT16_PANEL_END = CPU_N_BLOCK * CPU_INT16_KC / FP8_BLOCK * 4
};

/* Tiers of instruction sets; each includes the lower ones. AVX2 requires FMA and F16C. AVX-512
 * requires VBMI, VNNI and GFNI: processors without them use AVX2. */
enum cpu_tier { CPU_GENERIC, CPU_AVX2, CPU_AVX512, CPU_AMX, CPU_TIERS };

/* Instructions that kernels may use: a tier, and extensions that not all of its processors have. */
struct cpu_isa {
    enum cpu_tier tier;
    bool vnni; /* int16 dot products in one instruction; always from AVX-512 on */
    bool bf16; /* BF16 dot products; AVX-512 only, AMX always has them */
};

/* A placed matrix as kernels read it. */
struct cpu_matrix {
    struct tensor tensor; /* current data and scales */
    const void *bf12;     /* NULL, or the matrix as BF12, which is read instead (tensor/bf12.h) */
    uint8_t int16; /* FP8: CPU_INT16_*, or 1 + the powers of four that scale its values to int16 */
};

/* Rows of activations to pack. 128 weight rows share the block scales of FP8 weights. Kernels apply
 * the scales to the partial sums of a block or, if they cannot, to x, which is then repacked for
 * each 128 weight rows: x · (s w) = (x s) · w, with one rounding either way. */
struct packing_args {
    const float *x; /* [n, width], rows x_stride apart */
    size_t x_stride, width, padded;
    int n;
    const float *scale; /* one per FP8_BLOCK columns, or NULL */
    bool weights_8bit;  /* for FP8 or int8 weights */
    bool fp8_order;     /* for FP8 weights: columns in the order in which these are unpacked */
    bool two_pass;      /* n more rows follow: the remainders of rounding the first n to BF16 */
};

/* Weight rows to multiply with packed rows. */
struct gemv_args {
    const uint8_t *w;
    size_t w_stride;                 /* bytes from row to row */
    enum dtype dtype;                /* of the stored rows */
    const struct cpu_matrix *weight; /* the matrix; the first row is its row `row` */
    int64_t row;
    int n_w, n_x;
    size_t k; /* elements of a row: a multiple of CPU_K_STEP */
    const void *x;
    const float *scale;  /* of the first row, one per FP8_BLOCK columns, for kernels with
                            scales_sums; or NULL */
    const uint8_t *next; /* for gemv(): weights to be multiplied next; NULL if unknown */
};

/* Columns of up to CPU_N_BLOCK weight rows to multiply with those of a packed tile. */
struct gemm_args {
    const void *w,
        *x;     /* results of pack_panel(), and of pack_gemm() from the first of these columns on */
    size_t k;   /* columns, a multiple of CPU_K_STEP */
    bool first; /* the first columns: sums start at zero */
    int n_w, n_x;
    const struct cpu_matrix *weight;
    const float *scale; /* one per FP8_BLOCK columns, or NULL */
};

/* cpu_matrix.int16 (backend/cpu/cpu_fp8_as_int16.c): not checked yet, or not possible. */
enum { CPU_INT16_UNKNOWN = 0, CPU_INT16_NO = 255 };

static inline int cpu_fp8_powers(const struct cpu_matrix *w)
{
    return w->int16 - 1;
}

/* Layout of packed rows. */
enum cpu_x_form {
    X_F32,
    X_BF16,  /* two columns per word; with two_pass, rows of remainders follow */
    X_INT16, /* with a step for each row, and sums */
};

/* The matmul kernels of one arithmetic: GEMV multiplies few rows with weights in place, GEMM many
 * rows with panels of unpacked weights. Both add in the same order. out[x][w], rows out_stride
 * apart, has room for n_w rounded up to CPU_N_ALIGN (store_gemm(): to CPU_PANEL_NR). */
struct matmul_kernels {
    enum cpu_x_form x;      /* what pack_gemv() and pack_gemm() write */
    bool bf12;              /* takes BF12 matrices (tensor/bf12.h) like BF16 ones */
    bool scales_sums;       /* block scales multiply sums, so x is packed once */
    bool int8_interleaved;  /* int8 weights have the column order of bf12_column_at() */
    int gemm_rows;          /* rows of a packed tile of gemm(), at most CPU_GEMM_MAX_ROWS */
    int gemv_rows;          /* rows of a packed tile of gemv() */
    size_t gemv_tile_bytes; /* bytes of 8-bit weight rows of a gemv() tile; 0 for one N-block */
    int gemv_max_rows; /* most rows for which GEMV is faster, one pass per tile: later passes read
                          the weights from a cache */
    size_t panel_element; /* bytes of an element of a panel */
    size_t x_element; /* most bytes of an element of packed x, including what follows the rows */
    /* Packs rows of a tile for gemv() in the kernels' own layout; their width is `padded`. */
    void (*pack_gemv)(void *out, const struct packing_args *p);
    /* If not NULL, used in place of pack_gemv(): packs columns begin .. end-1, multiples of
     * CPU_K_STEP, of all rows. */
    void (*pack_gemv_columns)(void *out, const struct packing_args *p, size_t begin, size_t end);
    void (*gemv)(float *out, size_t out_stride,
                 const struct gemv_args *t); /* reads weights in place, once */

    size_t panel_tail;      /* bytes that follow a panel */
    int n_blocks;           /* panels that share each pass over packed rows */
    size_t max_panel_bytes; /* limit of an N-group, unless its minimum of rows takes more */
    size_t whole_k, kc;     /* columns of a panel: all up to whole_k, otherwise kc */
    /* Packs rows of a tile, at most gemm_rows of `padded` elements. */
    void (*pack_gemm)(void *out, const struct packing_args *p);
    /* Returns the byte offset of column k0 in a tile of n packed rows. NULL if panels have all
     * columns. */
    size_t (*x_offset)(size_t k0, int n);
    /* Unpacks columns k0 .. k0+k-1 of weight rows row .. row+n-1 without scales; n is rounded up to
     * a multiple of CPU_PANEL_NR. */
    void (*pack_panel)(void *out, const struct cpu_matrix *w, int64_t row, int n, size_t k0,
                       size_t k);
    /* Computes the sums of a tile with an N-block in the kernels' own order. The first columns
     * start the sums, others add to them. */
    void (*gemm)(float *sums, const struct gemm_args *b);
    /* Stores the sums of rows first .. first+n-1. */
    void (*store_gemm)(float *out, size_t out_stride, const float *sums, int n_w, int first, int n);
    size_t (*gemm_sums)(size_t width); /* floats of gemm()'s sums */
};

/* Types with scales in groups that have int16 kernels, each with its own set. */
#define FOR_CPU_BLOCK_TYPES(X) X(Q8_0) X(Q4_0) X(Q4_K) X(Q5_K) X(Q6_K) X(IQ4_XS) X(INT4)
enum cpu_block_type {
#define CPU_BLOCK_TYPE(id) CPU_BLOCKS_##id,
    FOR_CPU_BLOCK_TYPES(CPU_BLOCK_TYPE)
#undef CPU_BLOCK_TYPE
        CPU_BLOCK_TYPES
};

/* Layout of a block of keys and values. Keys are transposed, [dim, CPU_KEY_BLOCK]; values are
 * [CPU_KEY_BLOCK, dim]. BF16 rows are interleaved in pairs, [rows / 2, columns, 2], as tile matmuls
 * read them. */
enum kv_layout {
    KV_LAYOUT_F32,
    KV_LAYOUT_BF16,
    KV_LAYOUT_TWO_PASS, /* BF16; the keys' rounding remainders follow: for kernels with two_pass */
};

/* Query rows and their online softmax over blocks of keys. */
struct attention_tile {
    int n_rows, dim;
    bool q_is_packed;           /* set by the kernel at the first block: q is packed in `scratch` */
    uint16_t *scratch;          /* cpu_attention_scratch_size(dim) elements, aligned to 64 bytes */
    const float *q[CPU_Q_ROWS]; /* [dim] times the softmax scale */
    int first_key[CPU_Q_ROWS], end_key[CPU_Q_ROWS]; /* the row attends to keys first_key ..
                                                       end_key-1; end_key 0 leaves it unchanged */
    float max[CPU_Q_ROWS], sum[CPU_Q_ROWS];
    float *o; /* [CPU_Q_ROWS, o_stride] not normalized; o_stride is a multiple of CPU_HEAD_PAD */
    size_t o_stride;
    const void *next; /* keys of the next block; NULL if unknown */
};

/* Elements for three parts of the queries, padded, and the values of one block. */
enum { CPU_Q_PARTS = 3 };
static inline size_t cpu_attention_scratch_size(int dim)
{
    return (CPU_Q_PARTS * CPU_Q_ROWS + CPU_KEY_BLOCK) * ((size_t)dim + 32);
}

/* Queries of one head of an image, which attend to all of its keys. Keys and values are in the
 * kernels' layout. */
enum { CPU_VISION_MAX_DIM = 256 }; /* the widest head */

struct vision_attention_tile {
    const float *q; /* [n_rows, dim] times the softmax scale */
    int n_rows, dim, n_keys;
    const void *keys, *values;
    float *o; /* [n_rows, dim], rows o_stride apart */
    size_t o_stride;
};

/* Kernels for attention over a whole image. */
struct vision_attention_kernels {
    size_t (*key_bytes)(int dim),
        (*value_bytes)(int dim);   /* bytes per patch, for multiples of CPU_KEY_BLOCK patches */
    size_t (*scratch_bytes)(void); /* bytes per thread, aligned to 64 */
    void (*store_key)(void *keys, size_t patch, const float *key, int dim);
    /* Stores n rows of `in`, `stride` apart, from `patch` on, within CPU_PATCH_GROUP aligned
     * patches. */
    void (*store_values)(void *values, size_t patch, const float *in, size_t stride, int n,
                         int dim);
    void (*attention)(const struct vision_attention_tile *t, void *scratch);
};
enum { CPU_PATCH_GROUP = 16 };

/* Kernels on rows of weights and activations, and causal attention with vectors. */
struct row_kernels {
    void (*to_bf16)(uint16_t *out, const float *in,
                    size_t n); /* rounds to nearest, ties to even; keeps denormals */
    /* Converts one weight row with its scales to n float32. */
    void (*dequantize_row)(float *out, const struct cpu_matrix *w, int64_t row);
    /* y = sums + more + bias, or y += that; more and bias may be NULL */
    void (*accumulate)(float *y, const float *sums, const float *more, const float *bias, size_t n,
                       bool add);

    void (*rms_norm)(float *y, const float *x, const float *w, size_t n, float eps);
    void (*layer_norm)(float *y, const float *x, const float *w, const float *b, size_t n,
                       float eps);
    void (*silu_mul)(float *gate, const float *up, size_t n); /* gate = silu(gate) * up */
    void (*gelu_tanh)(float *x, size_t n);
    void (*gelu_erf)(float *x, size_t n);
    void (*attention)(struct attention_tile *t, const void *keys, const void *values,
                      enum kv_layout kind);
};

struct cpu_kernels {
    struct cpu_isa isa;
    const char *name, *mask; /* name for users; name in --cpu-mask */
    const struct row_kernels *rows;
    const struct matmul_kernels *f32;           /* weights of any dtype */
    const struct matmul_kernels *low_precision; /* 16-bit arithmetic for BF16, FP8 and int8
                                                   weights; NULL for float32 */
    const struct matmul_kernels *fp8;    /* for FP8 weights that cpu_use_int16() accepts; or NULL */
    const struct matmul_kernels *blocks; /* [CPU_BLOCK_TYPES] for weights of these types, or NULL */
    const struct matmul_kernels *int4;   /* for int4 weights instead of `blocks`; or NULL */
    const struct matmul_kernels *vision; /* for BF16 weights and rows of an image, or NULL */
    bool two_pass; /* where BF16 is too coarse, multiply x's BF16 rounding errors, too
                    * (packing_args.two_pass), instead of float32; images' keys and values are then
                    * KV_LAYOUT_TWO_PASS instead of KV_LAYOUT_F32 */
    void (*attention)(struct attention_tile *t, const void *keys, const void *values,
                      enum kv_layout kind);
    const struct vision_attention_kernels
        *vision_attention; /* NULL for attention() with KV_LAYOUT_TWO_PASS or KV_LAYOUT_F32 */
};

/* Returns all instructions that kernels know. */
static inline struct cpu_isa cpu_isa_best(void)
{
    return (struct cpu_isa){CPU_AMX, true, true};
}

/* Returns the instructions of `most` that this machine has. */
struct cpu_isa cpu_isa_usable(struct cpu_isa most);
/* Returns the kernel set for a result of cpu_isa_usable(). */
const struct cpu_kernels *cpu_kernels_for(struct cpu_isa isa);
/* Parses a name of --cpu-mask: CPU_MASK_NAMES, or an old one. Returns false for an unknown name. */
#define CPU_MASK_NAMES "generic, avx2, avx2-novnni, avx512, avx512-nobf16, amx"
bool cpu_isa_by_name(const char *name, struct cpu_isa *isa);

extern const struct cpu_kernels cpu_kernels_generic;
extern const struct matmul_kernels cpu_matmul_f32_generic;
#if defined(__x86_64__)
/* gemm/gemm_amx.c */
enum {
    CPU_AMX_MR = 32,      /* rows of a packed GEMM tile: two AMX tiles */
    CPU_AMX_GEMV_MR = 16, /* rows of a packed GEMV tile: one AMX tile */
    CPU_AMX_GEMV_MAX_ROWS = 32
};
void cpu_pack_gemm_amx(void *out, const struct packing_args *p);
void cpu_pack_panel_amx(void *out, const struct cpu_matrix *w, int64_t row, int n, size_t k0,
                        size_t k);
void cpu_gemm_amx(float *sums, const struct gemm_args *b);
void cpu_store_gemm_amx(float *out, size_t out_stride, const float *sums, int n_w, int first,
                        int n_x);
size_t cpu_gemm_sums_amx(size_t width);
size_t cpu_x_offset_amx(size_t k0, int n);
/* gemm/gemm_int8_amx.c, for four-bit weights */
void cpu_pack_gemm_int4_amx(void *out, const struct packing_args *p);
void cpu_pack_panel_int4_amx(void *out, const struct cpu_matrix *w, int64_t row, int n, size_t k0,
                             size_t k);
void cpu_gemm_int4_amx(float *sums, const struct gemm_args *b);
void cpu_store_gemm_int4_amx(float *out, size_t out_stride, const float *sums, int n_w, int first,
                             int n);
size_t cpu_x_offset_int4_amx(size_t k0, int n);
/* gemv/gemv_amx.c and attention/attention_causal_amx.c */
void cpu_pack_gemv_amx(void *out, const struct packing_args *p, size_t begin, size_t end);
void cpu_gemv_amx(float *out, size_t out_stride, const struct gemv_args *t);
void cpu_attention_amx(struct attention_tile *t, const void *keys, const void *values,
                       enum kv_layout kind);
/* attention/attention_vision_*.c, named likewise */
extern const struct vision_attention_kernels cpu_vision_attention_avx2,
    cpu_vision_attention_avx2_vnni, cpu_vision_attention_avx512, cpu_vision_attention_avx512_bf16,
    cpu_vision_attention_amx;

/* isa/ */
extern const struct matmul_kernels cpu_matmul_f32_avx2, cpu_matmul_f32_avx512,
    cpu_matmul_bf16_avx512;
extern const struct matmul_kernels cpu_matmul_int16_avx2, cpu_matmul_int16_avx2_vnni,
    cpu_matmul_int16_avx512, cpu_matmul_int16_avx512_bf16; /* for FP8 weights */
extern const struct matmul_kernels cpu_matmul_blocks_avx2[CPU_BLOCK_TYPES],
    cpu_matmul_blocks_avx2_vnni[CPU_BLOCK_TYPES], cpu_matmul_blocks_avx512[CPU_BLOCK_TYPES];
extern const struct matmul_kernels cpu_matmul_vision_avx2, cpu_matmul_vision_avx2_vnni,
    cpu_matmul_vision_avx512;                           /* also in int16 */
extern const struct row_kernels cpu_row_kernels_avx512; /* also for AMX */

extern const struct cpu_kernels cpu_kernels_avx2[2], /* [cpu_isa.vnni] */
    cpu_kernels_avx512[2],                           /* [cpu_isa.bf16] */
    cpu_kernels_amx;
#endif

#endif
