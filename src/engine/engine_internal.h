/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the engine share: the open engine and the buffers it planned at start. */
#ifndef EY_ENGINE_INTERNAL_H
#define EY_ENGINE_INTERNAL_H

#include <pthread.h>

#include "engine/cache/image_cache.h"
#include "engine/cache/kv_pool.h"
#include "engine/schedule/grammar_masks.h"
#include "engine/request/request_queue.h"
#include "engine/sample/sampler.h"
#include "plan/plan.h"

/* Host buffers, sized once at start. */
struct host_buffers {
    float *pixels;            /* [max_rows, patch_width] of a tile of the picture in the tower */
    int32_t *patch_positions; /* [max_rows, 3] */
    float *logits;            /* [vocabulary] */
    float *normed, *rescore_norm;           /* [hidden] for logits that are computed again */
    int32_t *token, *feature, *seq, *index; /* [max_rows] of one step */
    int32_t *position;                      /* [max_rows, 3] */
    int32_t *block_table;                   /* [max_num_seqs, max_blocks] */
    int32_t *out_rows;                      /* [max_num_seqs] */
};

/* What a running request has for its own. */
struct request_slot {
    struct sampler sampler;
    int32_t *blocks; /* [max_blocks] of the KV cache, in the order of its tokens */
    bool in_use;
};

/* A request's rows in one step. */
struct scheduled_chunk {
    ey_generation *gen;
    int first, n; /* rows of the request */
    bool wants_logits;
};

enum { MAX_UNREAD_DEFAULT = 256 };
#define UNREAD_SECONDS_DEFAULT 30.0 /* a request whose text nobody fetches is ended after this */
#define SLICE_SECONDS_DEFAULT                                                                    \
    0.2 /* others' tokens wait no longer for a prompt or a picture, as far as a chunk can be cut \
         */

struct ey_engine {
    struct checkpoint *ckpt;
    struct tokenizer *tok;
    struct model model;
    struct pool *pool;
    struct backend *be;
    struct backend *cpu; /* beside a card: what a tower or layers run on that are not there; NULL:
                            be is no card */
    struct hugepage_weights *hugepage_weights; /* into huge pages, of those in host memory; NULL:
                                                  they stay in the file's */
    ey_budget *budget;                         /* borrowed */
    double load_seconds, device_seconds;

    /* limits */
    int max_model_len, max_blocks, max_num_seqs, max_num_queued, max_images, max_unread;
    double unread_seconds, slice_seconds;
    size_t longest_token; /* bytes */

    /* planned memory */
    struct device_info device_info; /* of the device, as it was when the plan was made */
    struct plan plan;
    ey_plan_item plan_item[PLAN_ROWS];
    int n_plan_items;
    struct workspace ws, cpu_vision_ws; /* the latter where the tower is on the CPU beside a card */
    struct vision_backends vision_backends;
    struct cpu_layers cpu_layers; /* n 0: all layers are on `be` */
    dev step_memory, shared_memory, feature_memory, vision_memory,
        cpu_layers_memory; /* that the workspaces' buffers lie in */
    struct kv_cache kv;
    uint64_t kv_block_bytes;
    float *logits; /* [max_num_seqs, vocabulary] on the device */
    struct host_buffers host;
    struct arena arena; /* of the host buffers */
    struct weight
        bf16_head; /* as stored, where the device has an 8-bit one; data NULL: it has this */
    bool rescores_on_host; /* what the device says is best of such a head is scored again here,
                          which it cannot do itself */

    /* the scheduler's own */
    struct sampler_scratch scratch;
    struct request_slot *slot;     /* [max_num_seqs] */
    struct grammar_masks masks;    /* of the step under way */
    struct matcher **matchers;     /* [max_num_seqs] whose they are */
    struct scheduled_chunk *chunk; /* [max_num_seqs] of the step under way */
    struct scheduled_chunk
        *previous_chunk; /* [max_num_seqs] of the step before the one that was put behind it */
    int n_async;         /* 0: none was */
    struct kv_pool blocks;
    struct image_cache images;
    struct hasher *hasher;
    struct encoder_run encoder_run;    /* the picture in the tower … */
    struct image_entry *encoder_entry; /* … NULL: none */
    ey_prompt *encoder_prompt;         /* held: the picture is its */
    double decode_step_seconds;        /* what a step of answers alone took lately … */
    double prefill_row_seconds;        /* … and a row of a prefill chunk beside it */
    pthread_mutex_t device_lock;       /* held while the backend works */

    /* under the lock */
    pthread_mutex_t lock;
    ey_gpu_memory gpu_memory; /* of a card, as it was when it was looked at last */
    double gpu_memory_time;
    pthread_cond_t work_ready; /* for the scheduler */
    pthread_t thread;
    bool thread_started, closing;
    struct request_queue queue;
    ey_generation **running; /* [max_num_seqs], the longest running first */
    int n_running;
    ey_stats stats;
    double last_heartbeat; /* 0: nothing to do */

    struct vocabulary
        *vocabulary;   /* of constrained answers, made at the first one; under token_lock */
    char **token_text; /* [vocabulary] made at first use of ey_token_text */
    pthread_mutex_t token_lock;
};

/* A condition variable for waits on the monotonic clock (engine.c). */
void cond_init_monotonic(pthread_cond_t *condition);

/* The tokens as matchers need them, built at the first use (tokens.c). NULL: *e says why. */
const struct vocabulary *engine_vocabulary(ey_engine *engine, ey_err *e);

#endif
