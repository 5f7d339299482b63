/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper from inside: keeper.c opens, closes and lends engines, keeper_turns.c says which
 * model's turn it is, model_info.c keeps what is learned. */
#ifndef EY_SERVER_MODEL_MANAGER_INTERNAL_H
#define EY_SERVER_MODEL_MANAGER_INTERNAL_H

#include <pthread.h>

#include "server/model_manager/model_manager.h"

/* One model; all of it under the keeper's lock. */
struct model_slot {
    struct model_manager *manager;
    char label[96]; /* in the log: "the model", of several "model NAME" */
    ey_engine_options options;
    ey_engine *engine; /* READY */
    enum model_state state;
    const char *stage;
    int percent;
    double load_seconds, loaded_at,
        last_used; /* since: when it was last loaded; used: when it was last given back */
    int n_leases, n_peeking, loads, unloads, failures;
    /* those who wait have numbers; the ones that were there when it was loaded are let in whatever
     * else is asked for */
    uint64_t n_arrived, last_admitted; /* numbers up to `admitted` may enter */
    int n_waiting, n_pending;          /* owed: those of them that may, and have not yet */
    double requested_at;   /* since when somebody waits for it to be loaded; 0: nobody does */
    bool draining;         /* it takes in nobody else until another has had its room */
    uint64_t shared_bytes; /* of the keeper's room; 0 where it is alone */
    ey_err error;          /* of the last load that failed */
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

/* ---- keeper_turns.c; the lock is held ---- */

/* Not loading, and nobody has its engine, looks at it or is about to get it. */
bool model_slot_is_idle(const struct model_slot *m);
/* The model that has been waited for longest and is not loaded; NULL: none. */
struct model_slot *model_manager_next_load(struct model_manager *k);
/* Whether there is room for it beside those that are loaded. */
bool model_manager_fits(const struct model_manager *k, const struct model_slot *requested);
/* For a model without room: an idle one that is to give way, the least recently used first; NULL:
 * none of those whose room it takes is idle. Those that are busy and have had their turn are shut;
 * *until is when the next will have had it, INFINITY where all have. */
struct model_slot *model_manager_pick_victim(struct model_manager *k,
                                             const struct model_slot *requested, double *until);
/* All are open to everybody again. */
void model_manager_clear_draining(struct model_manager *k);

/* ---- model_info.c ---- */

/* The lock is held. */
void model_slot_set_plan(struct model_slot *m, const ey_plan *plan);
void model_slot_set_engine(struct model_slot *m, const ey_engine *engine);
void model_stats_add(ey_stats *sum, const ey_stats *s);
/* In how many seconds the card's memory is to be looked at; INFINITY: not while all stays as it is.
 */
double model_slot_seconds_to_check(const struct model_slot *m);
/* Looks; called and returns with the lock held. Only the keeper's thread closes the engine, so it
 * stays. */
void model_slot_check_memory(struct model_slot *m);

#endif
