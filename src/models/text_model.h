/* SPDX-License-Identifier: Apache-2.0 */
/* One step of a text model on any backend. */
#ifndef EY_MODELS_TEXT_MODEL_H
#define EY_MODELS_TEXT_MODEL_H

#include "models/model.h"

/* Activation buffers of a step of at most max_rows rows. */
struct step_buffers {
    int max_rows;
    dev x, q, o, h, rope;
};

/* Layers first .. end-1 of the text model on one backend. The first range looks up the embedding;
 * the last one has final norm and head.
 *
 * There are two ranges if a GPU cannot hold all layers: some layers run on a backend in host
 * memory. These are the first layers, not the last, so that activations cross PCIe once per step,
 * head, logits and sampling stay on the GPU, and an untied embedding takes no GPU memory. */
struct layer_range {
    struct backend *be;
    int first, end;
    struct step_buffers step; /* overlaps nothing, because decode steps run between vision tiles */
    struct step_buffers
        chunk;          /* for more rows; overlaps the vision encoder's buffers on one device */
    struct kv_cache kv; /* of these layers; all ranges use the same block numbers */
};

/* Returns the buffers for a step of n rows. */
static inline const struct step_buffers *range_buffers(const struct layer_range *range, int n)
{
    return n <= range->step.max_rows ? &range->step : &range->chunk;
}

/* Device buffers, planned at start. A vision encoder and a prefill chunk on one device never run at
 * the same time, so their buffers overlap. A vision encoder on a separate backend has a separate
 * workspace without the text model's buffers. */
struct workspace {
    struct layer_range range[MAX_LAYER_RANGES];
    int n_ranges;
    int max_rows;                                              /* rows of a vision tile */
    int max_patches;                                           /* of one encoder run */
    dev vision_x, vision_qkv, vision_o, vision_h, vision_rope; /* vision encoder */
    dev vision_features; /* [FEATURE_BLOCK, out_hidden] features in transfer to another device */
    int feature_rows;
    struct feature_level {  /* merged features, then each DeepStack level */
        struct backend *be; /* backend of the range that adds them */
        dev rows;           /* [feature_rows, hidden] */
    } features[1 + EY_MAX_DEEPSTACK];
};

/* Returns the range with head and logits. */
static inline struct layer_range *last_range(struct workspace *ws)
{
    return &ws->range[ws->n_ranges - 1];
}

/* A callback between layers and tiles. If it returns false, the run stops and its results are
 * discarded. */
struct watch {
    bool (*go_on)(void *user, int done, int total);
    void *user;
};

static inline bool watch_go_on(const struct watch *w, int done, int total)
{
    return !w || !w->go_on || w->go_on(w->user, done, total);
}

/* Enqueues a step: runs its rows through all layers, appends to the KV caches, and computes the
 * logits [n_logits, vocabulary] of the requested rows, at most limits.max_logits. `logits` is
 * float32 memory of the last range's backend. Returns false if the watch stopped the step.
 *
 * *handle names the step in calls of graph_ops: wait(), commit() and drop(). It is 0 for a backend
 * without graph_ops, whose finish() waits for the step. `handle` may be NULL if topk() is not
 * called. */
bool text_model_enqueue(const struct model *model, struct workspace *ws, const struct step *step,
                        float *logits, const struct watch *watch, step_handle *handle);
/* Computes the logits [n, vocabulary] of the given rows of the last step, which had n_rows rows.
 * More than max_logits rows are computed in pieces. */
void text_model_logits(const struct model *model, struct workspace *ws, int n_rows,
                       const int32_t *rows, int n, float *logits);
/* Returns the layer after which a DeepStack level is added. */
int text_deepstack_layer(int level);

#endif
