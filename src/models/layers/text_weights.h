/* SPDX-License-Identifier: Apache-2.0 */
/* A text model's tensors and rotary table: what families of pre-norm layers share, and what one has
 * and another has not. */
#ifndef EY_MODELS_TEXT_WEIGHTS_H
#define EY_MODELS_TEXT_WEIGHTS_H

#include "models/layers/bind.h"
#include "models/model.h"
#include "models/text_config.h"

struct text_tensors {
    const char *prefix; /* of all names but lm_head's: "model." */
    bool head_norms;    /* q_norm and k_norm */
    bool qkv_bias;
    bool fused; /* qkv_proj and gate_up_proj, rows one after the other */
};

/* Fills embedding, layers, final norm and head of m->text's shape; `tied`: the head may be the
 * embedding. */
bool bind_text(struct model *m, struct tensor_source *s, const struct text_tensors *names,
               bool tied, ey_err *e);

/* 1 / base^(2i/dim) in float32, rounded where torch rounds. */
float rope_inverse_frequency(float base, int i, int dim);
/* Allocates n_pairs frequencies and their axes, all 0. */
bool rope_alloc(struct rope *r, float **frequency, uint8_t **axis, struct arena *arena, int n_pairs,
                ey_err *e);
/* The table of a text model whose positions count up: every pair turns by the first of a position's
 * three numbers. */
bool make_1d_rope(struct model *m, ey_err *e);

/* open() of a family that is a text model and nothing else, its numbers at the top of config.json.
 * `rules` checks or reads what is the family's own (may be NULL); missing_theta as in
 * config_1d_rope(). */
struct text_family {
    struct text_tensors tensors;
    double missing_theta;
    bool (*rules)(struct model *m, const struct config *s, ey_err *e);
};
bool open_text_only(struct model *m, struct checkpoint *ckpt, const struct text_family *family,
                    ey_err *e);

#endif
