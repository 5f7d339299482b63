/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the model manager: model_manager.c opens, closes and leases engines,
 * model_eviction.c chooses which model is loaded next and which is evicted, model_info.c records
 * what is known of each. */
#ifndef EY_SERVER_MODEL_MANAGER_INTERNAL_H
#define EY_SERVER_MODEL_MANAGER_INTERNAL_H

#include <pthread.h>

#include "server/model_manager/model_manager.h"

/* One model; all of it under the manager's lock. */
struct model_slot {
    struct model_manager *manager;
    char label[96]; /* in the log: "the model", of several "model NAME" */
    ey_engine_options options;
    ey_engine *engine; /* READY */
    enum model_state state;
    ey_phase stage;
    int percent;
    double load_seconds, loaded_at, last_used; /* last_used: when a lease was last released */
    int n_leases, n_peeking, loads, unloads, failures;
    /* Waiters are numbered. Those that waited when the model was loaded are admitted even when it
     * drains for another model. */
    uint64_t n_arrived, last_admitted; /* numbers up to last_admitted may enter */
    int n_waiting, n_pending;          /* n_pending: admitted waiters that hold no lease yet */
    double requested_at;               /* since when a waiter needs it loaded; 0: no waiter */
    double keep_seconds;               /* after the last request, at least; as its client asked */
    bool unload_asked;                 /* as soon as it is idle */
    bool draining;                     /* it admits no one until another model has had its memory */
    uint64_t shared_bytes;             /* of capacity_bytes; 0 where it is the only model */
    ey_err error;                      /* of the last load that failed */
    ey_gpu_memory memory;              /* the engine's */
    double memory_checked_at;
    ey_stats unloaded_stats;
    struct model_info info;
};

struct model_manager {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool closing;
    int idle_seconds, max_loaded, max_waiting;
    double turn_seconds;
    uint64_t capacity_bytes; /* bytes that the loaded models share */
    size_t n_models;
    struct model_slot model[SERVER_MAX_MODELS];
};

/* ---- model_eviction.c; the lock is held ---- */

/* Loaded, without leases, peeks or admitted waiters. */
bool model_slot_is_idle(const struct model_slot *m);
/* The model that has been waited for longest and is not loaded; NULL: none. */
struct model_slot *model_manager_next_load(struct model_manager *k);
/* Whether it fits alongside the loaded models. */
bool model_manager_fits(const struct model_manager *k, const struct model_slot *requested);
/* Chooses an idle model to evict for one that does not fit, the least recently used first; NULL:
 * none of those whose memory it needs is idle. Busy ones whose turn is over start to drain; *until
 * is when the next turn ends, INFINITY when all have ended. */
struct model_slot *model_manager_pick_victim(struct model_manager *k,
                                             const struct model_slot *requested, double *until);
/* No model drains any more. */
void model_manager_clear_draining(struct model_manager *k);

/* ---- model_info.c ---- */

/* The lock is held. */
void model_slot_set_plan(struct model_slot *m, const ey_plan *plan);
void model_slot_set_engine(struct model_slot *m, const ey_engine *engine);
void model_stats_add(ey_stats *sum, const ey_stats *s);
/* Seconds until the GPU's memory is due for a check; INFINITY: not while all stays as it is. */
double model_slot_seconds_to_check(const struct model_slot *m);
/* Checks it. Called and returns with the lock held, which it releases meanwhile; only the manager's
 * thread closes the engine, so the engine stays. */
void model_slot_check_memory(struct model_slot *m);

#endif
