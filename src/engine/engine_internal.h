/* What the files of the engine share: the open engine and the buffers it planned at start. */
#ifndef EY_ENGINE_INTERNAL_H
#define EY_ENGINE_INTERNAL_H

#include <pthread.h>

#include "engine/kv_record.h"
#include "engine/sampler.h"
#include "models/decoder.h"

/* Host buffers, sized once at start. */
struct host_buffers {
    float *pixels;              /* [max_patches, patch_width] of the picture being encoded */
    int32_t *patch_positions;   /* [max_patches, 3] */
    float *logits;              /* [vocabulary] */
    int32_t *token, *feature, *seq, *index; /* [max_model_len] the rows of a request, chunk after chunk */
    int32_t *position;          /* [max_model_len, 3] */
    int16_t *picture;           /* [max_model_len] which picture a row belongs to, or -1 */
    int32_t *block_table;       /* [n_blocks] */
};

struct ey_engine {
    struct checkpoint *ckpt;
    struct tokenizer *tok;
    struct model model;
    struct pool *pool;
    struct backend *be;
    struct workspace ws;
    struct kv_cache kv;
    dev logits;                 /* [vocabulary] float32 on the device */
    struct host_buffers host;
    struct arena arena;         /* of the host buffers */
    struct sampler sampler;
    struct kv_record record;    /* of what the KV cache holds */
    char **token_text;          /* [vocabulary] made at first use of ey_token_text */
    pthread_mutex_t lock;       /* one request at a time */
    pthread_mutex_t token_lock; /* of token_text */
    int max_model_len;
    uint64_t workspace_bytes, kv_bytes;
    double load_seconds;
};

/* Sizes of everything that a request needs follow from the model and the context; allocates all of it. */
bool engine_buffers_open(ey_engine *engine, ey_err *e);
void engine_buffers_close(ey_engine *engine);

/* Visual tokens that one request may have: half of the context. */
int engine_max_visual(const ey_engine *engine);

/* Log-probabilities of raw logits[n]: the chosen token's and the `top` best (ids descending by logit, the lower id
 * first among equals). scratch-free, no allocation. */
struct scored {
    int32_t id;
    float logprob;
};
int32_t logits_argmax(const float *logits, int n);
void logits_score(const float *logits, int n, int32_t chosen, int top, struct scored *out_chosen, struct scored *out_top);

#endif
