/* SPDX-License-Identifier: Apache-2.0 */
/* The model manager loads models on its own thread, leases their engines to requests, and unloads
 * models that are idle or must make room for another. Models are numbered as in server_options. */
#ifndef EY_SERVER_MODEL_MANAGER_H
#define EY_SERVER_MODEL_MANAGER_H

#include "eyelet/diagnose.h"
#include "eyelet/plan.h"
#include "eyelet/pooling.h"
#include "server/server.h"

struct model_manager;

enum model_state { MODEL_LOADING, MODEL_READY, MODEL_UNLOADED, MODEL_FAILED, MODEL_CLOSING };

/* Facts about a model. */
struct model_info {
    bool planned; /* the following are known from the checkpoint's headers */
    char directory[EY_MAX_PATH];
    ey_plan_item item[EY_PLAN_ITEMS];
    size_t n_items;
    uint64_t total_bytes, budget_bytes, max_pixels;
    char budget_rule[160];
    char choice[EY_PLAN_CHOICES][160]; /* the plan's choices to make the model fit */
    size_t n_choices;
    bool shares_memory; /* it does not fit beside the models loaded at the start */
    bool loaded_once;   /* the following are known, also after the model is unloaded */
    bool reads_images, has_tools;
    ey_task task;
    char architecture[64], device[32], device_detail[128];
    int threads, max_model_len, kv_tokens, max_num_seqs;
    uint64_t kv_bytes;
    double stuck_seconds; /* time without a step after which an engine with work counts as stuck */
};

struct model_status {
    enum model_state state;
    ey_phase stage; /* while LOADING */
    int percent;
    double load_seconds;   /* of the last load */
    int loads, unloads;    /* so far */
    int waiting;           /* requests waiting for it to be loaded */
    double unload_seconds; /* until it is unloaded if no request comes; INFINITY: never */
    ey_err error;          /* FAILED */
    ey_gpu_memory memory; /* the GPU's at the last check; unknown without a GPU or while unloaded */
    struct model_info info;
};

/* Starts loading on a thread of its own. With several models it first plans them together and loads
 * those that fit side by side; the others are loaded on demand. The engines take the memory of
 * images in flight from `budget`. */
bool model_manager_open(struct model_manager **manager, const struct server_options *options,
                        ey_budget *budget, ey_err *e);
/* Leases no more engines; waiters fail with EY_BUSY. */
void model_manager_shutdown(struct model_manager *manager);
/* Waits until all leases have been released. */
void model_manager_close(struct model_manager **manager);
size_t model_manager_count(const struct model_manager *manager);
struct model_status model_manager_status(struct model_manager *manager, size_t model);

/* Leases a model's engine until model_manager_release(). Waits until the model is loaded, and polls
 * `gone` every 100 ms: if it returns true, the wait ends. If memory is short, evicts idle models,
 * least recently used first. A model that is never idle drains after turn_seconds, until the other
 * model has been loaded. At most max_num_queued requests wait; further ones fail with EY_BUSY.
 * *waited tells whether this request waited. Returns NULL on failure. */
ey_engine *model_manager_acquire(struct model_manager *manager, size_t model,
                                 bool (*gone)(void *user), void *user, bool *waited, ey_err *e);
void model_manager_release(struct model_manager *manager, size_t model);

/* Keeps the model loaded for at least `seconds` after its last request; INFINITY: until another
 * needs its memory. */
void model_manager_keep(struct model_manager *manager, size_t model, double seconds);
/* Unloads the model as soon as it is idle. */
void model_manager_unload(struct model_manager *manager, size_t model);

/* Returns a model's counters, summed over all engines that it has had. Neither waits nor counts as
 * use. */
ey_stats model_manager_stats(struct model_manager *manager, size_t model);
/* Whether the engine has work but has made no step for stuck_seconds. */
bool model_manager_is_stuck(struct model_manager *manager, size_t model);

#endif
