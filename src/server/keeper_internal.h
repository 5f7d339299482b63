/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper from inside: keeper.c opens, closes and lends engines, keeper_turns.c says which
 * model's turn it is, keeper_facts.c keeps what is learned. */
#ifndef EY_SERVER_KEEPER_INTERNAL_H
#define EY_SERVER_KEEPER_INTERNAL_H

#include <pthread.h>

#include "server/keeper.h"

/* One model; all of it under the keeper's lock. */
struct kept {
    struct keeper *keeper;
    char label[96]; /* in the log: "the model", of several "model NAME" */
    ey_engine_options options;
    ey_engine *engine; /* READY */
    enum keeper_state state;
    const char *stage;
    int percent;
    double load_seconds, since,
        used; /* since: when it was last loaded; used: when it was last given back */
    int borrowed, peeking, loads, unloads, failures;
    /* those who wait have numbers; the ones that were there when it was loaded are let in whatever
     * else is asked for */
    uint64_t n_came, admitted; /* numbers up to `admitted` may enter */
    int waiting, owed;         /* owed: those of them that may, and have not yet */
    double wanted;             /* since when somebody waits for it to be loaded; 0: nobody does */
    bool shut;                 /* it takes in nobody else until another has had its room */
    uint64_t bytes;            /* of the keeper's room; 0 where it is alone */
    ey_err error;              /* of the last load that failed */
    ey_memory memory;          /* the engine's */
    double looked;
    ey_stats past;
    struct keeper_facts facts;
};

struct keeper {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool closing;
    int idle_seconds, max_loaded, max_waiting;
    double turn_seconds;
    uint64_t room; /* bytes that the loaded models share */
    size_t n;
    struct kept model[SERVER_MAX_MODELS];
};

/* ---- keeper_turns.c; the lock is held ---- */

/* Not loading, and nobody has its engine, looks at it or is about to get it. */
bool kept_is_idle(const struct kept *m);
/* The model that has been waited for longest and is not loaded; NULL: none. */
struct kept *keeper_next(struct keeper *k);
/* Whether there is room for it beside those that are loaded. */
bool keeper_has_room(const struct keeper *k, const struct kept *wanted);
/* For a model without room: an idle one that is to give way, the least recently used first; NULL:
 * none of those whose room it takes is idle. Those that are busy and have had their turn are shut;
 * *until is when the next will have had it, INFINITY where all have. */
struct kept *keeper_victim(struct keeper *k, const struct kept *wanted, double *until);
/* All are open to everybody again. */
void keeper_open_doors(struct keeper *k);

/* ---- keeper_facts.c ---- */

/* The lock is held. */
void kept_note_plan(struct kept *m, const ey_plan *plan);
void kept_note_engine(struct kept *m, const ey_engine *engine);
void stats_add(ey_stats *sum, const ey_stats *s);
/* In how many seconds the card's memory is to be looked at; INFINITY: not while all stays as it is.
 */
double kept_seconds_to_look(const struct kept *m);
/* Looks; called and returns with the lock held. Only the keeper's thread closes the engine, so it
 * stays. */
void kept_look(struct kept *m);

#endif
