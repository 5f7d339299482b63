/* SPDX-License-Identifier: Apache-2.0 */
/* One step of a text model, written against the backend. */
#ifndef EY_MODELS_DECODER_H
#define EY_MODELS_DECODER_H

#include "models/model.h"

/* Activations of a text model step of at most max_rows rows. */
struct step_buffers {
    int max_rows;
    dev x, q, o, h, rope;
};

/* The first layers on a backend in host memory, for a GPU that cannot hold all. The first, not the
 * last: activations cross PCIe once per step, and head, logits and sampling stay on the GPU. The
 * embedding is looked up on the host too, so an untied one takes no GPU memory. */
struct cpu_layers {
    struct backend *be;
    int n_layers;
    struct step_buffers buffers; /* float32 */
    struct kv_cache kv;          /* of these layers; block numbers are the GPU's */
};

/* Device buffers, planned at start. A vision encoder and a prefill chunk on one device never run at
 * the same time, so their buffers overlap. A vision encoder on a backend of its own has a workspace
 * of its own, without the text model's. */
struct workspace {
    int max_rows;              /* rows of a vision tile */
    int max_patches;           /* of one image */
    struct step_buffers step;  /* not shared: decode runs between vision tiles */
    struct step_buffers chunk; /* overlaps the vision encoder's */
    dev vision_x, vision_qkv, vision_o, vision_h, vision_rope; /* vision encoder */
    dev vision_features; /* [FEATURE_BLOCK, out_hidden] when they are on their way to another device
                          */
    int feature_rows;
    dev features[1 + EY_MAX_DEEPSTACK];  /* [feature_rows, hidden] each: merged, then each DeepStack
                                            level; on the backend of the first layer */
    const struct cpu_layers *cpu_layers; /* NULL: all layers are on one backend */
};

/* Called between layers and tiles; false stops the run, whose results are then discarded. */
struct watch {
    bool (*go_on)(void *user, int done, int total);
    void *user;
};

static inline bool watch_go_on(const struct watch *w, int done, int total)
{
    return !w || !w->go_on || w->go_on(w->user, done, total);
}

/* Enqueues a step: its rows through all layers, appending to the cache, and the logits [n_logits,
 * vocabulary] of the rows that it wants, at most limits.max_logits, in `logits`, which is device
 * memory of float32. False: stopped by the watch.
 *
 * *handle (may be NULL: topk() is not called) names the step for wait, commit and drop of the
 * backend's graphs; 0 where it has none: finish() waits for it. */
bool text_model_enqueue(const struct model *model, struct backend *be, const struct workspace *ws,
                        const struct step_buffers *buffers, struct kv_cache *kv,
                        const struct step *step, float *logits, const struct watch *watch,
                        step_handle *handle);
/* The logits [n, vocabulary] of these rows of the last step in `buffers`; more than max_logits are
 * computed piece by piece. */
void text_model_logits(const struct model *model, struct backend *be,
                       const struct step_buffers *buffers, const int32_t *rows, int n,
                       float *logits);

#endif
