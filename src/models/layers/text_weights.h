/* SPDX-License-Identifier: Apache-2.0 */
/* Binds a text model's tensors and makes its rotary table, for all families of pre-norm layers. */
#ifndef EY_MODELS_TEXT_WEIGHTS_H
#define EY_MODELS_TEXT_WEIGHTS_H

#include "models/layers/bind.h"
#include "models/model.h"
#include "models/text_config.h"

struct text_tensors {
    const char *prefix; /* of all names but lm_head's, such as "model." */
    bool head_norms;    /* has q_norm and k_norm */
    bool qkv_bias;
    bool fused; /* qkv_proj and gate_up_proj stored as one matrix each */
};

/* Binds embedding, layers, final norm and head by m->text's shape; `tied`: the head may be the
 * embedding. */
bool bind_text(struct model *m, struct tensor_source *s, const struct text_tensors *names,
               bool tied, ey_err *e);

/* Returns 1 / base^(2i/dim) in float32, rounded where torch rounds. */
float rope_inverse_frequency(float base, int i, int dim);
/* Allocates n_pairs frequencies and their axes, all 0. */
bool rope_alloc(struct rope *r, float **frequency, uint8_t **axis, struct arena *arena, int n_pairs,
                ey_err *e);
/* Makes the rotary table of a text model with one-dimensional positions: all pairs use the first of
 * a position's three numbers. */
bool make_1d_rope(struct model *m, ey_err *e);

/* open() of a text-only family whose numbers are at the top of config.json. `rules` (may be NULL)
 * checks or reads what is specific to the family; missing_theta as in config_1d_rope(). */
struct text_family {
    struct text_tensors tensors;
    double missing_theta;
    bool (*rules)(struct model *m, const struct config *s, ey_err *e);
};
bool open_text_only(struct model *m, struct checkpoint *ckpt, const struct text_family *family,
                    ey_err *e);

#endif
