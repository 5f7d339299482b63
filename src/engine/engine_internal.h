/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the engine share: the open engine and the buffers it planned at start. */
#ifndef EY_ENGINE_INTERNAL_H
#define EY_ENGINE_INTERNAL_H

#include <pthread.h>

#include "engine/image_cache.h"
#include "engine/kv_pool.h"
#include "engine/masks.h"
#include "engine/queue.h"
#include "engine/sampler.h"
#include "plan/plan.h"

/* Host buffers, sized once at start. */
struct host_buffers {
    float *pixels;              /* [max_rows, patch_width] of a tile of the picture in the tower */
    int32_t *patch_positions;   /* [max_rows, 3] */
    float *logits;              /* [vocabulary] */
    float *normed, *exact_norm; /* [hidden] for logits that are computed again */
    int32_t *token, *feature, *seq, *index; /* [max_rows] of one step */
    int32_t *position;                      /* [max_rows, 3] */
    int32_t *block_table;                   /* [max_num_seqs, max_blocks] */
    int32_t *out_rows;                      /* [max_num_seqs] */
};

/* What a running request has for its own. */
struct slot {
    struct sampler sampler;
    int32_t *blocks; /* [max_blocks] of the KV cache, in the order of its tokens */
    bool used;
};

/* A request's rows in one step. */
struct part {
    ey_ticket *ticket;
    int first, n; /* rows of the request */
    bool wants_logits;
};

/* The first of them is of the prompt, not of an answer. */
bool part_is_prompt(const struct part *part);

enum { DEFAULT_UNREAD = 256 };
#define UNREAD_SECONDS 30.0 /* a request whose text nobody fetches is ended after this */
#define SLICE_SECONDS                                                                            \
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
    struct moved_weights
        *moved;        /* into huge pages, of those in host memory; NULL: they stay in the file's */
    ey_budget *budget; /* borrowed */
    double load_seconds, device_seconds;

    /* limits */
    int max_model_len, max_blocks, max_num_seqs, max_num_queued, max_images, max_unread;
    double unread_seconds, slice_seconds;
    size_t longest_token; /* bytes */

    /* planned memory */
    struct device_facts facts; /* of the device, as it was when the plan was made */
    struct plan plan;
    ey_plan_item plan_item[PLAN_ROWS];
    int n_plan_items;
    struct workspace ws, cpu_ws; /* the latter where the tower is on the CPU beside a card */
    struct vision_place tower;
    struct first_layers first; /* n 0: all layers are on `be` */
    dev step_memory, shared_memory, feature_memory, tower_memory,
        first_memory; /* that the workspaces' buffers lie in */
    struct kv_cache kv;
    uint64_t kv_block_bytes;
    float *logits; /* [max_num_seqs, vocabulary] on the device */
    struct host_buffers host;
    struct arena arena; /* of the host buffers */
    struct weight
        exact_head;    /* as stored, where the device has an 8-bit one; data NULL: it has this */
    bool scores_again; /* what the device says is best of such a head is scored again here, which it
                          cannot do itself */

    /* the scheduler's own */
    struct sampler_scratch scratch;
    struct slot *slot;               /* [max_num_seqs] */
    struct masks masks;              /* of the step under way */
    struct constraint **constrained; /* [max_num_seqs] whose they are */
    struct part *part;               /* [max_num_seqs] of the step under way */
    struct part *ahead; /* [max_num_seqs] of the step before the one that was put behind it */
    int n_ahead;        /* 0: none was */
    struct kv_pool blocks;
    struct image_cache images;
    struct hasher *hasher;
    struct vision_pass pass;        /* the picture in the tower … */
    struct image_entry *pass_entry; /* … NULL: none */
    ey_prompt *pass_prompt;         /* held: the picture is its */
    double answer_seconds;          /* what a step of answers alone took lately … */
    double row_seconds;             /* … and a row of a prefill chunk beside it */
    pthread_mutex_t device;         /* held while the backend works */

    /* under the lock */
    pthread_mutex_t lock;
    ey_memory memory; /* of a card, as it was when it was looked at last */
    double memory_seen;
    pthread_cond_t work; /* for the scheduler */
    pthread_t thread;
    bool thread_started, closing;
    struct queue queue;
    ey_ticket **running; /* [max_num_seqs], the longest running first */
    int n_running;
    ey_stats stats;
    double last_beat; /* 0: nothing to do */

    struct vocabulary
        *vocabulary;   /* of constrained answers, made at the first one; under token_lock */
    char **token_text; /* [vocabulary] made at first use of ey_token_text */
    pthread_mutex_t token_lock;
};

/* ---- the parts of opening (engine.c, planning.c, huge_weights.c) ---- */
/* Finds what steps read in host memory, which is to be moved into huge pages; at_once: whatever is
 * asked meanwhile. */
void engine_move_weights(ey_engine *engine, bool at_once);
/* Whether there is some left to move now, where there is other work or none; under the lock. */
bool engine_may_move(const ey_engine *engine, bool works);
/* Moves some of it; by the scheduler, which holds the device's lock. */
void engine_move_some(ey_engine *engine);
/* So many bytes fewer than the checkpoint has are read of weights now; by any thread. */
uint64_t engine_bytes_less(const ey_engine *engine);
/* Frees the copies: nothing reads weights any more. */
void engine_end_move(ey_engine *engine);
ey_engine *engine_new(ey_err *e);
bool engine_open_pool(ey_engine *engine, const ey_engine_options *options, ey_err *e);
struct shrink_choice;
bool engine_read_shrink(struct shrink_choice *out, const ey_engine_options *options, ey_err *e);
bool engine_open_headers(ey_engine *engine, const char *name, ey_err *e);
bool engine_open_backend(ey_engine *engine, const ey_engine_options *options, ey_err *e);
/* The CPU beside a card. */
bool engine_open_cpu(ey_engine *engine, const ey_engine_options *options, ey_err *e);
/* Fills engine->plan and the limits that follow from it, and tells it to who asked for it. */
bool engine_plan(ey_engine *engine, const ey_engine_options *options, ey_err *e);
/* False: the plan does not fit; *e says by how much, and what would. */
bool engine_check_plan(const ey_engine *engine, const ey_engine_options *options, ey_err *e);

/* ---- card.c: nothing where there is none ---- */
/* Tries the kernels where this card is new, and tells of those that are not used. */
bool engine_check_kernels(ey_engine *engine, const ey_engine_options *options, ey_err *e);
/* How fast its memory is, now that all is loaded. */
bool engine_first_look(ey_engine *engine, const ey_engine_options *options, ey_err *e);

/* Allocates what engine->plan says. */
bool engine_buffers_open(ey_engine *engine, ey_err *e);
void engine_buffers_close(ey_engine *engine);

/* The tokens as constrained answers need them; NULL: *e says why. */
const struct vocabulary *engine_vocabulary(ey_engine *engine, ey_err *e);

bool scheduler_start(ey_engine *engine, ey_err *e);
/* Ends what is under way, and the thread. */
void scheduler_stop(ey_engine *engine);

/* Log-probabilities of raw logits[n]: the chosen token's and the `top` best (ids descending by
 * logit, the lower id first among equals). scratch-free, no allocation. */
struct scored {
    int32_t id;
    float logprob;
};
int32_t logits_argmax(const float *logits, int n);
void logits_score(const float *logits, int n, int32_t chosen, int top, struct scored *out_chosen,
                  struct scored *out_top);

#endif
