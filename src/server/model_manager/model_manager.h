/* SPDX-License-Identifier: Apache-2.0 */
/* The engines' keeper: loads models behind the server's back, lends their engines to requests, puts
 * away what nobody wants or what has to give way. Models are numbered as in server_options. */
#ifndef EY_SERVER_MODEL_MANAGER_H
#define EY_SERVER_MODEL_MANAGER_H

#include "server/server.h"

struct model_manager;

enum model_state { MODEL_LOADING, MODEL_READY, MODEL_UNLOADED, MODEL_FAILED, MODEL_CLOSING };

/* What is known of a model. */
struct model_info {
    bool planned; /* from the checkpoint's headers, before it is loaded: */
    ey_plan_item item[EY_PLAN_ITEMS];
    size_t n_items;
    uint64_t total_bytes, budget_bytes, max_pixels;
    char budget_rule[160];
    char choice[EY_PLAN_CHOICES][160]; /* what the plan did to fit */
    size_t n_choices;
    bool shares_memory; /* of several models: it does not fit beside those that are loaded at the
                         start */
    bool loaded_once;   /* and since then, also while it is unloaded: */
    char architecture[64], device[32], device_detail[128];
    int threads, max_model_len, kv_tokens, max_num_seqs;
    uint64_t kv_bytes;
    double stuck_seconds; /* an engine that made no step for so long will not make another */
};

struct model_status {
    enum model_state state;
    const char *stage; /* "loading" … */
    int percent;
    double load_seconds; /* of the last load */
    int loads, unloads;  /* so far */
    int waiting;         /* requests that wait for it to be loaded */
    ey_err error;        /* FAILED */
    ey_gpu_memory
        memory; /* of the card, as it was seen last; nothing known: no card, or not loaded */
    struct model_info info;
};

/* Starts loading on a thread of its own: of several models first one plan over all is made, then
 * those are loaded that fit together; the others when they are asked for. `budget` is what the
 * engines take pictures in flight out of. */
bool model_manager_open(struct model_manager **manager, const struct server_options *options,
                        ey_budget *budget, ey_err *e);
/* Nobody gets an engine any more; those who wait for one are told so. */
void model_manager_shutdown(struct model_manager *manager);
/* Waits until all have been given back. */
void model_manager_close(struct model_manager **manager);
size_t model_manager_count(const struct model_manager *manager);
struct model_status model_manager_status(struct model_manager *manager, size_t model);

/* The engine of a model, for as long as it is not given back; waits while it is not loaded (asking
 * `gone` every 100 ms, which stops the wait when true). Where there is no room, models that are
 * idle give way, the least recently used first; one that is asked for all the time takes nothing
 * new in after turn_seconds until the other has been loaded. At most max_num_queued wait: *e of the
 * next is EY_BUSY. *waited: this one did. NULL: *e says why. */
ey_engine *model_manager_acquire(struct model_manager *manager, size_t model,
                                 bool (*gone)(void *user), void *user, bool *waited, ey_err *e);
void model_manager_release(struct model_manager *manager, size_t model);

/* A model's counters, those of its engines that were unloaded added. Neither waits nor counts as
 * use. */
ey_stats model_manager_stats(struct model_manager *manager, size_t model);
/* The engine is loaded and works, and yet made no step for so long that it will not make another.
 */
bool model_manager_is_stuck(struct model_manager *manager, size_t model);

#endif
