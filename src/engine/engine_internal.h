/* SPDX-License-Identifier: Apache-2.0 */
/* Structs that the engine's files share: the open engine and the buffers planned at start. */
#ifndef EY_ENGINE_INTERNAL_H
#define EY_ENGINE_INTERNAL_H

#include <pthread.h>

#include "engine/cache/image_cache.h"
#include "engine/cache/kv_pool.h"
#include "engine/schedule/grammar_masks.h"
#include "engine/request/request_queue.h"
#include "engine/sample/sampler.h"
#include "plan/memory_plan.h"

/* Host buffers, sized once at start. */
struct host_buffers {
    float *pixels;            /* [max_rows, patch_width] of a vision tile */
    int32_t *patch_positions; /* [max_rows, 3] */
    float *logits;            /* [vocabulary] */
    float *normed;            /* [hidden] for rescoring */
    float *rescore_norm;      /* [hidden] the final norm's weights */
    float *score_weights;     /* [hidden] of a reranker: the head's "yes" row minus its "no" row */
    int32_t *token;           /* [max_rows] of one step, like the next three */
    int32_t *feature;
    int32_t *row_seq;
    int32_t *row_slot;
    int32_t *position;    /* [max_rows, 3] */
    struct step_seq *seq; /* [max_num_seqs] */
    int32_t *block_table; /* [max_num_seqs, max_blocks] */
    int32_t *logits_row;  /* [max_logits] */
};

/* Resources of one running request. */
struct request_slot {
    struct sampler sampler;
    int32_t *blocks; /* [max_blocks] of the KV cache, in token order */
    bool in_use;
};

/* A request's rows in one step. */
struct scheduled_chunk {
    ey_generation *gen;
    int first, n; /* rows of the request */
    bool wants_logits;
    bool wants_vector; /* needs the vector or score of its last row */
};

enum { MAX_UNREAD_DEFAULT = 256 };
#define UNREAD_SECONDS_DEFAULT 30.0 /* then a request with too much unfetched text is ended */
/* Prompt chunks and vision slices are cut so that they delay decoding requests by at most this
 * time, unless the smallest possible one takes longer. */
#define SLICE_SECONDS_DEFAULT 0.2
/* On fast devices the limit is lower: the time of SLICE_DECODE_STEPS decode steps, but at least
 * SLICE_SECONDS_MIN. */
#define SLICE_DECODE_STEPS 12
#define SLICE_SECONDS_MIN 0.02

/* The state of weight refinement (schedule/refine_weights.c). */
struct refinement {
    struct refine_progress progress;
    bool left;         /* work is left */
    bool eager;        /* also works while requests run */
    double start_time; /* seconds of the monotonic clock */
    double next_time;  /* no refinement between steps before this time */
    pthread_cond_t done;
};

/* Limits of requests. Written while the engine opens, then read by any thread without a lock. */
struct engine_limits {
    int max_model_len;
    int max_blocks; /* KV blocks of one request */
    int max_num_seqs;
    int max_num_queued;
    int max_images;
    int max_unread; /* unfetched tokens of a request */
    double unread_seconds;
    double slice_seconds;
    size_t longest_token; /* bytes */
};

/* The model and its backends. Written while the engine opens; fields that are constant afterwards
 * are read by any thread. Only the holder of `lock` may run work on a backend or the pool: the
 * scheduler's thread during steps, others between two steps. Take it before scheduler.lock, never
 * after. */
struct engine_devices {
    struct checkpoint *ckpt;
    struct tokenizer *tok;
    struct model model;
    struct pool *pool;
    struct backend *be;
    struct backend *cpu; /* with a GPU: runs the parts of the model on the CPU; otherwise NULL */
    struct vision_backends vision_backends;
    ey_budget *budget;              /* borrowed */
    struct device_info device_info; /* as of the plan */
    double load_seconds, device_seconds;
    pthread_mutex_t lock;

    /* under scheduler.lock */
    struct refinement refinement;
    ey_gpu_memory gpu_memory; /* the last measurement */
    double gpu_memory_time;
};

/* All memory, planned and allocated while the engine opens. Plan, shapes and bf16_head are constant
 * afterwards and read by any thread; the buffers' contents belong to the holder of devices.lock. */
struct engine_buffers {
    struct plan plan;
    ey_plan_item plan_item[PLAN_ROWS];
    int n_plan_items;
    struct workspace ws;
    struct workspace cpu_vision_ws; /* for a vision encoder on the CPU next to a GPU */
    dev step_memory;                /* backs the workspaces' buffers, like the next four */
    dev shared_memory;
    dev feature_memory;
    dev vision_memory;
    dev cpu_layers_memory;
    uint64_t kv_block_bytes;
    float *logits; /* [max_num_seqs, vocabulary] on the device */
    struct host_buffers host;
    struct arena arena; /* of the host buffers */
    struct tensor
        bf16_head;         /* for rescoring an 8-bit head; data is NULL if the head is not 8-bit */
    bool rescores_on_host; /* the device cannot rescore */
};

/* The running requests and their step. */
struct scheduler {
    /* Used by the scheduler's thread alone, except masks, which has its own thread and lock. */
    struct sampler_scratch scratch;
    struct request_slot *slot;              /* [max_num_seqs] */
    struct grammar_masks masks;             /* of the current step */
    struct matcher **matchers;              /* [max_num_seqs] of the step's constrained requests */
    struct scheduled_chunk *chunk;          /* [max_num_seqs] of the current step */
    struct scheduled_chunk *previous_chunk; /* [max_num_seqs] of the step before the async one */
    step_handle step, async_step;           /* the running step and the one enqueued behind it */
    int n_async;                            /* chunks of the async step, 0 if none is enqueued */
    struct encoder_run encoder_run;         /* the images that are being encoded */
    struct encoded_image {
        struct image_entry *entry; /* its features, also pinned by the run */
        ey_prompt *prompt;         /* owner of the pixels, referenced */
    } encoding[ENCODER_IMAGES];    /* of encoder_run */
    int n_encoding;                /* 0 if nothing is being encoded */
    double decode_step_seconds;    /* moving average of a step without prompt rows */
    double prefill_row_seconds;    /* moving average of a prompt row's share of a step */
    double run_seconds;            /* time of encoder_run so far */
    double patch_seconds;          /* moving average of a patch in the vision encoder */

    /* Used by the thread that opens and closes the engine. */
    pthread_t thread;
    bool thread_started;

    /* Any thread may use the fields below under the lock. Only the scheduler's thread changes the
     * list of running requests, so it may read that list without the lock. */
    pthread_mutex_t lock;
    pthread_cond_t work_ready; /* wakes the scheduler */
    bool closing;
    struct request_queue queue;
    ey_generation **running; /* [max_num_seqs], the longest running first */
    int n_running;
    ey_stats stats;
    double last_heartbeat; /* 0: idle */
};

/* Caches of the engine. */
struct engine_caches {
    /* Changed by the scheduler's thread under scheduler.lock; their sizes are constant. */
    struct kv_pool blocks;
    struct image_cache images;
    struct hasher *hasher;

    /* Built at first use by any thread, under token_lock. */
    pthread_mutex_t token_lock;
    struct vocabulary *vocabulary; /* for constrained requests */
    char **token_text;             /* [vocabulary] for ey_token_text */
};

struct ey_engine {
    struct engine_limits limits;
    struct engine_devices devices;
    struct engine_buffers buffers;
    struct scheduler scheduler;
    struct engine_caches caches;
};

/* Returns the step that these buffers hold; fills row_seq and row_slot (schedule/step_batch.c). */
struct step host_step(const struct host_buffers *host, int n_rows, int n_seqs, int max_blocks,
                      int n_logits);

/* Returns the vocabulary in the form that matchers need, built at the first call (tokens.c).
 * Returns NULL and fills *e on failure. */
const struct vocabulary *engine_vocabulary(ey_engine *engine, ey_err *e);

/* Reads the options of a program whose structs may be older or newer than ours (base/checked.h). */
bool engine_options_read(ey_engine_options *out, const ey_engine_options *given, ey_err *e);
bool request_read(ey_request *out, const ey_request *given, ey_err *e);

#endif
