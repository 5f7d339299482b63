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

/* Layers first .. end-1 of the text model on one backend. The embedding is looked up where the
 * first range is, head and logits are where the last is.
 *
 * Two ranges: a GPU that cannot hold all leaves the first layers to a backend in host memory. The
 * first, not the last: activations cross PCIe once per step, and head, logits and sampling stay on
 * the GPU; an untied embedding takes no GPU memory. */
struct layer_range {
    struct backend *be;
    int first, end;
    struct step_buffers step;  /* not shared: decode runs between vision tiles */
    struct step_buffers chunk; /* for more rows; on one device it overlaps the vision encoder's */
    struct kv_cache kv;        /* of these layers; block numbers are the same in all ranges */
};

/* The buffers of a step of n rows. */
static inline const struct step_buffers *range_buffers(const struct layer_range *range, int n)
{
    return n <= range->step.max_rows ? &range->step : &range->chunk;
}

/* Device buffers, planned at start. A vision encoder and a prefill chunk on one device never run at
 * the same time, so their buffers overlap. A vision encoder on a backend of its own has a workspace
 * of its own, without the text model's. */
struct workspace {
    struct layer_range range[MAX_LAYER_RANGES];
    int n_ranges;
    int max_rows;                                              /* rows of a vision tile */
    int max_patches;                                           /* of one run of the encoder */
    dev vision_x, vision_qkv, vision_o, vision_h, vision_rope; /* vision encoder */
    dev vision_features; /* [FEATURE_BLOCK, out_hidden] when they are on their way to another device
                          */
    int feature_rows;
    struct feature_level {  /* merged features, then each DeepStack level */
        struct backend *be; /* of the range whose layer takes them */
        dev rows;           /* [feature_rows, hidden] */
    } features[1 + EY_MAX_DEEPSTACK];
};

/* The range with head and logits. */
static inline struct layer_range *last_range(struct workspace *ws)
{
    return &ws->range[ws->n_ranges - 1];
}

/* Called between layers and tiles; false stops the run, whose results are then discarded. */
struct watch {
    bool (*go_on)(void *user, int done, int total);
    void *user;
};

static inline bool watch_go_on(const struct watch *w, int done, int total)
{
    return !w || !w->go_on || w->go_on(w->user, done, total);
}

/* Enqueues a step: its rows through all layers, appending to the caches, and the logits [n_logits,
 * vocabulary] of the rows that it wants, at most limits.max_logits, in `logits`, which is float32
 * in the memory of the last range's backend. False: stopped by the watch.
 *
 * *handle (may be NULL: topk() is not called) names the step for wait, commit and drop of the
 * backend's graphs; 0 where it has none: finish() waits for it. */
bool text_model_enqueue(const struct model *model, struct workspace *ws, const struct step *step,
                        float *logits, const struct watch *watch, step_handle *handle);
/* The logits [n, vocabulary] of rows of the last step, which had n_rows; more than max_logits are
 * computed piece by piece. */
void text_model_logits(const struct model *model, struct workspace *ws, int n_rows,
                       const int32_t *rows, int n, float *logits);
/* The layer that a DeepStack level is added behind. */
int text_deepstack_layer(int level);

#endif
