/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of a model on which sizes and kernels depend, without names or weights. */
#ifndef EY_BACKEND_MODEL_SHAPE_H
#define EY_BACKEND_MODEL_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

struct text_shape {
    int hidden, n_layers, n_heads, n_kv_heads, head_dim, mlp, vocab_size;
    int max_position;
    int window; /* number of keys that a row attends to, including its own; 0 for no limit */
    float norm_eps;
    double rope_theta;
    int rope_section[3]; /* frequencies of the T, H and W axes, interleaved (spec 3.3); all 0 for
                            one-dimensional positions */
};

struct vision_shape {
    int hidden, depth, n_heads, head_dim, mlp, out_hidden; /* depth is 0 without a vision encoder */
    int patch, temporal, merge, channels;
    int position_side; /* the learned table is position_side x position_side */
    int n_deepstack, deepstack[EY_MAX_DEEPSTACK]; /* blocks whose output is taken, ascending */
    float norm_eps;
};

static inline int text_q_width(const struct text_shape *s)
{
    return s->n_heads * s->head_dim;
}

static inline int text_kv_width(const struct text_shape *s)
{
    return s->n_kv_heads * s->head_dim;
}

/* Returns the first slot that a row at `index` of its sequence attends to. */
static inline int text_first_key(const struct text_shape *s, int index)
{
    return s->window && index >= s->window ? index - s->window + 1 : 0;
}

/* Returns the floats of one patch row. */
static inline int vision_patch_width(const struct vision_shape *s)
{
    return s->channels * s->temporal * s->patch * s->patch;
}

/* Returns the patches of one visual token. */
static inline int vision_group(const struct vision_shape *s)
{
    return s->merge * s->merge;
}

#endif
