/* SPDX-License-Identifier: Apache-2.0 */
/* The model manager loads models on its own thread, leases their engines to requests, and unloads
 * models that are idle or that have to make space for another. Models are numbered as in
 * server_options. */
#ifndef EY_SERVER_MODEL_MANAGER_H
#define EY_SERVER_MODEL_MANAGER_H

#include "eyelet/diagnose.h"
#include "eyelet/plan.h"
#include "server/server.h"

struct model_manager;

enum model_state { MODEL_LOADING, MODEL_READY, MODEL_UNLOADED, MODEL_FAILED, MODEL_CLOSING };

/* What is known of a model. */
struct model_info {
    bool planned; /* from the checkpoint's headers, before it is loaded: */
    char directory[EY_MAX_PATH];
    ey_plan_item item[EY_PLAN_ITEMS];
    size_t n_items;
    uint64_t total_bytes, budget_bytes, max_pixels;
    char budget_rule[160];
    char choice[EY_PLAN_CHOICES][160]; /* what the plan did to fit */
    size_t n_choices;
    bool shares_memory; /* it does not fit with the models that are loaded at the start */
    bool loaded_once;   /* and since then, also while it is unloaded: */
    bool reads_images, has_tools;
    char architecture[64], device[32], device_detail[128];
    int threads, max_model_len, kv_tokens, max_num_seqs;
    uint64_t kv_bytes;
    double stuck_seconds; /* an engine that made no step for so long will not make another */
};

struct model_status {
    enum model_state state;
    ey_phase stage; /* while it is LOADING */
    int percent;
    double load_seconds;   /* of the last load */
    int loads, unloads;    /* so far */
    int waiting;           /* requests that wait for it to be loaded */
    double unload_seconds; /* until it is unloaded, if nothing comes; INFINITY: never */
    ey_err error;          /* FAILED */
    ey_gpu_memory
        memory; /* of the GPU at the last check; unknown without a GPU or while unloaded */
    struct model_info info;
};

/* Starts loading on a thread of its own. For several models it first makes one plan over all, then
 * loads those that fit together; the others are loaded on demand. The engines take the memory of
 * images in flight from `budget`. */
bool model_manager_open(struct model_manager **manager, const struct server_options *options,
                        ey_budget *budget, ey_err *e);
/* No engine is leased any more; waiters fail with EY_BUSY. */
void model_manager_shutdown(struct model_manager *manager);
/* Waits until all leases have been released. */
void model_manager_close(struct model_manager **manager);
size_t model_manager_count(const struct model_manager *manager);
struct model_status model_manager_status(struct model_manager *manager, size_t model);

/* Leases the engine of a model until model_manager_release(). Waits while the model is not loaded,
 * polling `gone` every 100 ms; true ends the wait. When memory is short, idle models are evicted,
 * the least recently used first; a model that is always busy drains after turn_seconds until the
 * other one has been loaded. At most max_num_queued requests wait; the next fails with EY_BUSY.
 * *waited says whether this one did. NULL: *e says why. */
ey_engine *model_manager_acquire(struct model_manager *manager, size_t model,
                                 bool (*gone)(void *user), void *user, bool *waited, ey_err *e);
void model_manager_release(struct model_manager *manager, size_t model);

/* The model stays loaded for this long after its last request, or longer where the server's own
 * time is; INFINITY: until another needs its memory. */
void model_manager_keep(struct model_manager *manager, size_t model, double seconds);
/* Unloads it as soon as nobody is being answered. */
void model_manager_unload(struct model_manager *manager, size_t model);

/* A model's counters, those of its engines that were unloaded added. Neither waits nor counts as
 * use. */
ey_stats model_manager_stats(struct model_manager *manager, size_t model);
/* The engine is loaded and works, and yet made no step for so long that it will not make another.
 */
bool model_manager_is_stuck(struct model_manager *manager, size_t model);

#endif
