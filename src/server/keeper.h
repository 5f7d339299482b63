/* The engine's keeper: loads it behind the server's back, lends it to requests, puts it away when nobody wants it. */
#ifndef EY_SERVER_KEEPER_H
#define EY_SERVER_KEEPER_H

#include "server/server.h"

struct keeper;

enum keeper_state { KEEPER_LOADING, KEEPER_READY, KEEPER_UNLOADED, KEEPER_FAILED, KEEPER_CLOSING };

/* What is known of the model. */
struct keeper_facts {
    bool planned; /* from the checkpoint's headers, before it is loaded: */
    ey_plan_item item[EY_PLAN_ITEMS];
    size_t n_items;
    uint64_t total_bytes, budget_bytes, max_pixels;
    char budget_rule[160];
    char choice[EY_PLAN_CHOICES][160]; /* what the plan did to fit */
    size_t n_choices;
    bool loaded_once; /* and since then, also while it is unloaded: */
    char architecture[64], device[32], device_detail[128];
    int threads, max_model_len, kv_tokens, max_num_seqs;
    uint64_t kv_bytes;
    double stuck_seconds; /* an engine that made no step for so long will not make another */
};

struct keeper_report {
    enum keeper_state state;
    const char *stage; /* "loading" … */
    int percent;
    double load_seconds; /* of the last load */
    int loads, unloads;  /* so far */
    ey_err error;        /* FAILED */
    ey_memory memory;    /* of the card, as it was seen last; nothing known: no card, or not loaded */
    struct keeper_facts facts;
};

/* Starts loading on a thread of its own. `budget` is what the engine takes pictures in flight out of. */
bool keeper_open(struct keeper **keeper, const struct server_options *options, ey_budget *budget, ey_err *e);
/* Nobody gets the engine any more; those who wait for it are told so. */
void keeper_shut(struct keeper *keeper);
/* Waits until all have given it back. */
void keeper_close(struct keeper **keeper);
struct keeper_report keeper_state(struct keeper *keeper);

/* The engine, for as long as it is not given back; waits while it is loading (asking `gone` every 100 ms, which stops the
 * wait when true), wakes it up when it was unloaded. NULL: *e says why. */
ey_engine *keeper_borrow(struct keeper *keeper, bool (*gone)(void *user), void *user, ey_err *e);
void keeper_return(struct keeper *keeper);

/* The engine's counters, those of engines that were unloaded added. Neither waits nor counts as use. */
ey_stats keeper_stats(struct keeper *keeper);
/* The engine is loaded and works, and yet made no step for so long that it will not make another. */
bool keeper_is_stuck(struct keeper *keeper);

#endif
