/* SPDX-License-Identifier: Apache-2.0 */
/* One step of a decoder over a batch of rows, written against the backend. */
#ifndef EY_MODELS_DECODER_H
#define EY_MODELS_DECODER_H

#include "models/model.h"

/* Activations of a decoder step of at most max_rows rows. */
struct step_buffers {
    int max_rows;
    dev x, q, o, h, rope;
};

/* The first layers of a decoder on a backend in host memory, where a card has no room for all. They
 * and not the last are there: then activations cross the bus once a step, on their way to the card,
 * and head, logits and what is drawn from them stay where they are; a last layer on the host would
 * send them back once more, or make the host read the head. The embedding's rows are looked up
 * there too, so an untied one takes nothing of the card. */
struct cpu_layers {
    struct backend *be;
    int n_layers;
    struct step_buffers buffers; /* float32 */
    struct kv_cache kv;          /* theirs; its blocks have the numbers of the card's */
};

/* Device buffers, planned at start. A tower and a chunk of prefill on one device never run at the
 * same time, so what only one of them needs lies over the other's. A tower on a backend of its own
 * has a workspace of its own, without the decoder's. */
struct workspace {
    int max_rows;              /* rows of a vision tile */
    int max_patches;           /* of one picture */
    struct step_buffers step;  /* of their own: decode goes on beside a tower */
    struct step_buffers chunk; /* over the tower's */
    dev vision_x, vision_qkv, vision_o, vision_h, vision_rope; /* tower */
    dev vision_features; /* [FEATURE_BLOCK, out_hidden] of a tower beside the decoder's device, on
                            their way there */
    int feature_rows;
    dev features[1 + EY_MAX_DEEPSTACK];  /* [feature_rows, hidden] each: merged, then each DeepStack
                                            level; on the backend of the first layer */
    const struct cpu_layers *cpu_layers; /* NULL: all layers are on one backend */
};

/* Called between layers and tiles: false stops the pass (the caller then throws its results away).
 */
struct watch {
    bool (*go_on)(void *user, int done, int total);
    void *user;
};

static inline bool watch_go_on(const struct watch *w, int done, int total)
{
    return !w || !w->go_on || w->go_on(w->user, done, total);
}

/* Runs the batch through all layers, appending to the cache, and gives the logits [n_out,
 * vocabulary] of the rows out_rows[n_out] (n_out may be 0) in `logits`, which is device memory of
 * float32. False: stopped by the watch. */
bool text_model_step(const struct model *model, struct backend *be, const struct workspace *ws,
                     const struct step_buffers *buffers, struct kv_cache *kv,
                     const struct batch *batch, const int32_t *out_rows, int n_out, float *logits,
                     const struct watch *watch);

#endif
