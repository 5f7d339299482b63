/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the model manager: model_manager.c opens, closes and leases engines,
 * model_eviction.c chooses the next model to load and which to evict, model_info.c records facts
 * about each. */
#ifndef EY_SERVER_MODEL_MANAGER_INTERNAL_H
#define EY_SERVER_MODEL_MANAGER_INTERNAL_H

#include <pthread.h>

#include "server/model_manager/model_manager.h"

/* One model, guarded by the manager's lock. */
struct model_slot {
    struct model_manager *manager;
    char label[96]; /* in the log: "the model", or "model NAME" if there are several */
    ey_engine_options options;
    ey_engine *engine; /* READY */
    enum model_state state;
    ey_phase stage;
    int percent;
    double load_seconds, loaded_at, last_used; /* last_used: when a lease was last released */
    int n_leases, n_peeking, loads, unloads, failures;
    /* Waiters are numbered; those up to last_admitted may enter even while the model drains. */
    uint64_t n_arrived, last_admitted; /* last number given; last one admitted */
    int n_waiting, n_pending;          /* n_pending: admitted waiters without a lease so far */
    double requested_at;               /* when a waiter first needed the model; 0: none does */
    double keep_seconds;               /* keep-alive after the last request, as its client asked */
    bool unload_asked;                 /* unload it as soon as it is idle */
    bool draining;         /* admits no new requests, so that another model gets its memory */
    uint64_t shared_bytes; /* its part of capacity_bytes; 0 if it is the only model */
    ey_err error;          /* of the last failed load */
    ey_gpu_memory memory;  /* the engine's */
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

/* Whether it is loaded, without leases, peeks or admitted waiters. */
bool model_slot_is_idle(const struct model_slot *m);
/* Returns the unloaded model that has been waited for longest, or NULL. */
struct model_slot *model_manager_next_load(struct model_manager *k);
/* Whether it fits alongside the loaded models. */
bool model_manager_fits(const struct model_manager *k, const struct model_slot *requested);
/* Chooses an idle model, the least recently used, to evict for one that does not fit. If only busy
 * models are left to evict, starts to drain those whose turn is over, and returns NULL. *until is
 * when the next turn ends, or INFINITY if all turns have ended. */
struct model_slot *model_manager_pick_victim(struct model_manager *k,
                                             const struct model_slot *requested, double *until);
/* Ends the draining of all models. */
void model_manager_clear_draining(struct model_manager *k);

/* ---- model_info.c ---- */

/* The lock is held. */
void model_slot_set_plan(struct model_slot *m, const ey_plan *plan);
void model_slot_set_engine(struct model_slot *m, const ey_engine *engine);
void model_stats_add(ey_stats *sum, const ey_stats *s);
/* Seconds until the GPU's memory is due for a check, INFINITY if none is. */
double model_slot_seconds_to_check(const struct model_slot *m);
/* Checks the GPU's memory. Called and returns with the lock held, releasing it meanwhile; only the
 * manager's thread closes engines, so the engine stays valid. */
void model_slot_check_memory(struct model_slot *m);

#endif
