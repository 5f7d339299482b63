/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the cpu backend: its state, packed rows, and cpu_matmul(). Activations are
 * float32 in host memory; the KV cache is BF16. */
#ifndef EY_BACKEND_CPU_CPU_BACKEND_H
#define EY_BACKEND_CPU_CPU_BACKEND_H

#include "backend/backend.h"
#include "base/buf.h"
#include "kernels/cpu/cpu_kernels.h"

enum { CPU_SUMS_STRIDE = FP8_BLOCK + CPU_N_ALIGN };

static inline size_t cpu_padded(size_t width)
{
    return (width + CPU_K_STEP - 1) / CPU_K_STEP * CPU_K_STEP;
}

enum { CPU_VECTORS = 4 };

/* This backend's struct placed. */
struct cpu_weight {
    struct cpu_matrix m;
    enum weight_role role;
    const struct matmul_kernels *matmul; /* chosen by dtype, role and tier */
    const struct matmul_kernels
        *matmul_int16;       /* used instead if cpu_use_int16() allows it; or NULL */
    bool two_pass;           /* matmul also multiplies x's rounding errors */
    const int32_t *place;    /* column order to which x is permuted; NULL for the usual order */
    struct cpu_weight *next; /* next in struct cpu's list, or NULL */
};

static inline struct cpu_weight *cpu_weight_of(const struct placed *w)
{
    return (struct cpu_weight *)(uintptr_t)w;
}

static inline const struct tensor *cpu_tensor(const struct placed *w)
{
    return &cpu_weight_of(w)->m.tensor;
}

struct cpu {
    struct backend base;
    struct pool *pool;
    const struct cpu_kernels *k;
    struct backend_limits limits;
    size_t stride;      /* elements of a packed row: max_width padded to CPU_K_STEP */
    void *packed;       /* packed input of the next matmul: [max_rows, stride] elements of at most 4
                           bytes, and room for a tile of gemv() */
    float *rows[2];     /* [max_rows, stride] intermediates */
    float *placed_rows; /* [max_rows, stride] x in a matrix's column order, or NULL */
    float *vectors[CPU_VECTORS]; /* [stride] decoded norm weights and biases */
    uint8_t *scratch;            /* [threads, scratch_size] */
    size_t scratch_size;
    void *int8_lm_head;              /* the head's quantized values and scales, or NULL */
    struct cpu_hugepages *hugepages; /* NULL until refine() is called */
    struct arena placed;             /* the weights */
    struct cpu_weight *weights;      /* weights used in place, in the order of place() */
    struct cpu_weight *last_weight;
};

/* Creates the backend with the best kernels for the machine's instruction sets within `mask`
 * (CPU_MASK_NAMES); NULL uses the fastest, cpu_fastest_isa(). */
bool backend_cpu_create(struct backend **be, struct pool *pool, const char *mask, ey_err *e);

static inline struct cpu *cpu_of(struct backend *be)
{
    return (struct cpu *)be;
}

static inline void *cpu_scratch(const struct cpu *c, int thread)
{
    return c->scratch + (size_t)thread * c->scratch_size;
}

const float *cpu_vector(struct cpu *c, int slot, const struct placed *w);

/* ---- inputs of matmuls ---- */
enum cpu_norm { CPU_NO_NORM, CPU_RMS_NORM, CPU_LAYER_NORM };

struct cpu_input {
    const float *x; /* [n, width], rows x_stride apart */
    size_t x_stride;
    int n, width;
    enum cpu_norm norm;
    const float *w, *b; /* weight and bias of the norm */
    float eps;
};

/* ---- matmul ---- */
enum cpu_epilogue {
    CPU_STORE,     /* y = sum + bias */
    CPU_ADD,       /* y += sum + bias */
    CPU_GELU_TANH, /* y = gelu(sum + bias) */
    CPU_GELU_ERF,
    CPU_SILU_MUL, /* y = silu(sum of the first) * sum of the second: linears 0 and 1 form one
                     product */
};

struct cpu_linear {
    struct cpu_weight *w;
    const float *bias; /* or NULL */
    float *y;          /* [n, rows of w], rows y_stride apart */
    size_t y_stride;
};

/* Multiplies linears[n_linears] with the same input; those that use the same kernels are multiplied
 * together. SILU_MUL takes two matrices of equal shape; the second's y is scratch. */
void cpu_matmul(struct cpu *c, const struct cpu_input *input, const struct cpu_linear *linears,
                int n_linears, enum cpu_epilogue epilogue);

/* ---- the operations of backend.h ---- */
size_t cpu_weight_bytes(const struct backend *be, const struct tensor *w, enum placement placement);
bool cpu_place(struct backend *be, struct placed **out, const struct tensor *in,
               enum weight_role role, enum placement placement, ey_err *e);
void cpu_embed(struct backend *be, dev x, const struct placed *table, dev features,
               const struct step *step);
void cpu_rope_table(struct backend *be, dev table, const struct rope *rope, const int32_t *position,
                    int n);
size_t cpu_kv_bytes(const struct backend *be, const struct kv_shape *shape);
void cpu_qkv(struct backend *be, dev q, struct kv_cache *kv, int layer, dev x,
             const struct attention *w, const struct text_shape *shape, dev rope,
             const struct step *step);
void cpu_attention(struct backend *be, dev o, dev q, const struct kv_cache *kv, int layer,
                   const struct text_shape *shape, const struct step *step);
void cpu_project_add(struct backend *be, dev x, dev in, const struct placed *w, int n,
                     int n_prompt);
void cpu_gate_up(struct backend *be, dev h, dev x, const struct mlp *w,
                 const struct text_shape *shape, int n, int n_prompt);
void cpu_lm_head(struct backend *be, float *logits, dev x, const int32_t *rows, int n,
                 const struct placed *norm, const struct placed *lm_head,
                 const struct text_shape *shape);
void cpu_patch_embed(struct backend *be, dev x, const float *pixels, const struct affine *w,
                     const struct placed *table, const struct vision_shape *shape, int rows,
                     int cols, int first, int n);
void cpu_vision_qkv(struct backend *be, dev qkv, dev x, const struct vision_block *w,
                    const struct vision_shape *shape, dev rope, int first, int n);
void cpu_vision_attention(struct backend *be, dev o, dev qkv, const struct vision_shape *shape,
                          const struct vision_segment *segments, int n_segments, int first, int n);
void cpu_vision_mlp(struct backend *be, dev h, dev x, const struct vision_block *w,
                    const struct vision_shape *shape, int n);
void cpu_vision_project_add(struct backend *be, dev x, dev in, const struct affine *w, int n);
void cpu_merge(struct backend *be, dev out, dev x, const struct merger *w,
               const struct vision_shape *shape, int n);

/* Tiles of an image's queries that pass through a head's keys and values together, so that each
 * block is read once for all of them. */
enum { CPU_SHARED_TILES = 4 };

/* Scratch of an attention tile's query rows, shared by text and vision. A thread's scratch has room
 * for CPU_SHARED_TILES. */
struct cpu_attention_scratch {
    uint16_t
        packed_q[(CPU_Q_PARTS * CPU_Q_ROWS + CPU_KEY_BLOCK) *
                 (EY_MAX_HEAD_DIM + 32)]; /* cpu_attention_scratch_size() of the largest head */
    float q[CPU_Q_ROWS * (EY_MAX_HEAD_DIM + CPU_HEAD_PAD)];
    float o[CPU_Q_ROWS * (EY_MAX_HEAD_DIM + CPU_HEAD_PAD)];
};
/* Starts a tile of n rows of `dim`: zeroes o and resets the maxima. The caller fills the q rows. */
void cpu_attention_start(struct attention_tile *t, struct cpu_attention_scratch *s, int n, int dim);
/* Writes out[dim] = o of row r divided by its sum. */
void cpu_attention_finish(float *out, const struct attention_tile *t, int r);
/* Rotates pairs (i, i + n_pairs) of a head by table[n_pairs, 2]. */
void cpu_apply_rope(float *head, const float *table, int n_pairs);

#endif
