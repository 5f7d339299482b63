/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the reference backend: its state and its few building blocks. All
 * activations are float32 in host memory, so a `dev` is a float pointer. */
#ifndef EY_BACKEND_REF_REF_BACKEND_H
#define EY_BACKEND_REF_REF_BACKEND_H

#include "backend/backend.h"
#include "base/buf.h"

struct ref {
    struct backend base;
    struct pool *pool;
    struct arena placed; /* the weights */
    struct backend_limits limits;
    float *rows[3];    /* [max_rows, max_width] each: normed input, and two intermediates */
    float *vectors[2]; /* [max_width] each: decoded norm weights and biases */
    float *weights;    /* [threads, REF_WEIGHT_ROWS, max_width] decoded weight rows */
    float *scores;     /* [threads, max_keys] */
};

enum { REF_WEIGHT_ROWS = 4, REF_X_ROWS = 4 };

static inline struct ref *ref_of(struct backend *be)
{
    return (struct ref *)be;
}

/* This backend's struct placed is the file's tensor. */
static inline const struct tensor *ref_tensor(const struct placed *w)
{
    return (const struct tensor *)(const void *)w;
}

/* Decodes one row of a weight to float32 with its scales applied. */
void ref_weight_row(float *out, const struct placed *w, int64_t row);

/* y[n, rows(w)] = x[n, cols(w)] · wᵀ + bias. Rows of y are `stride` floats apart; bias may be
 * NULL. */
void ref_linear(struct ref *r, float *y, size_t stride, const float *x, const struct placed *w,
                const struct placed *bias, int n);

/* The hot loops (ref_dot.c); strides in floats. The order of each sum depends on n alone. */
/* sums[a][b] = w_a · x_b, each of n values */
void ref_dot_tile(float sums[REF_WEIGHT_ROWS][REF_X_ROWS], const float *w, size_t w_stride,
                  const float *x, size_t x_stride, size_t n);
/* out[n_rows] = x[n] · rows */
void ref_dots(float *out, const float *x, const float *rows, size_t stride, size_t n, int n_rows);
static inline float ref_dot(const float *a, const float *b, size_t n)
{
    float sum;
    ref_dots(&sum, a, b, 0, n, 1);
    return sum;
}
/* out[n] += the sum of weight[j] * row j, one row after the other */
void ref_add_rows(float *out, const float *weight, const float *rows, size_t stride, size_t n,
                  int n_rows);
/* Turns scores[n] into softmax weights in place. */
void ref_softmax(float *scores, int n);

void ref_rms_norm(float *y, const float *x, const float *w, int n, float eps);

/* Returns a vector weight (norm, bias) as float32 in r->vectors[slot], valid until the slot's next
 * use. */
const float *ref_vector(struct ref *r, int slot, const struct placed *w);

/* Text (ref_text_model.c) and vision (ref_vision_model.c) steps; see backend.h. */
void ref_embed(struct backend *be, dev x, const struct placed *table, dev features,
               const struct step *step);
void ref_rope_table(struct backend *be, dev table, const struct rope *rope, const int32_t *position,
                    int n);
void ref_qkv(struct backend *be, dev q, struct kv_cache *kv, int layer, dev x,
             const struct attention *w, const struct text_shape *shape, dev rope,
             const struct step *step);
void ref_attention(struct backend *be, dev o, dev q, const struct kv_cache *kv, int layer,
                   const struct text_shape *shape, const struct step *step);
void ref_project_add(struct backend *be, dev x, dev in, const struct placed *w, int n,
                     int n_prompt);
void ref_gate_up(struct backend *be, dev h, dev x, const struct mlp *w,
                 const struct text_shape *shape, int n, int n_prompt);
void ref_lm_head(struct backend *be, float *logits, dev x, const int32_t *rows, int n,
                 const struct placed *norm, const struct placed *lm_head,
                 const struct text_shape *shape);
/* Rotates pairs (i, i + n_pairs) of one head by table[n_pairs, 2]. */
void ref_apply_rope(float *head, const float *table, int n_pairs);

void ref_patch_embed(struct backend *be, dev x, const float *pixels, const struct affine *w,
                     const struct placed *table, const struct vision_shape *shape, int rows,
                     int cols, int first, int n);
void ref_vision_qkv(struct backend *be, dev qkv, dev x, const struct vision_block *w,
                    const struct vision_shape *shape, dev rope, int first, int n);
void ref_vision_attention(struct backend *be, dev o, dev qkv, const struct vision_shape *shape,
                          const struct vision_segment *segments, int n_segments, int first, int n);
void ref_vision_mlp(struct backend *be, dev h, dev x, const struct vision_block *w,
                    const struct vision_shape *shape, int n);
void ref_vision_project_add(struct backend *be, dev x, dev in, const struct affine *w, int n);
void ref_merge(struct backend *be, dev out, dev x, const struct merger *w,
               const struct vision_shape *shape, int n);

/* Creates the reference backend: plain C in float32, with threads of `pool` (borrowed) over weight
 * rows. */
bool backend_ref_create(struct backend **be, struct pool *pool, ey_err *e);

#endif
