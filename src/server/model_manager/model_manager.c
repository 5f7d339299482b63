/* SPDX-License-Identifier: Apache-2.0 */
/* The model manager: one thread opens and closes engines, all others only take leases. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/model_manager/model_manager_internal.h"
#include "server/log.h"

enum { DEFAULT_MAX_WAITING = 64 };
#define WAIT_SECONDS 0.1

static void wait_for_change(struct model_manager *k, double seconds)
{
    const struct timespec end = deadline_after(seconds);
    pthread_cond_timedwait(&k->changed, &k->lock, &end);
}

/* ---- callbacks of engines while they are opened ---- */

static void on_load_progress(void *user, ey_phase phase, uint64_t done, uint64_t total)
{
    struct model_slot *m = user;
    pthread_mutex_lock(&m->manager->lock);
    m->stage = phase;
    m->percent = total ? (int)(100.0 * (double)done / (double)total) : 0;
    pthread_mutex_unlock(&m->manager->lock);
}

/* Publishes the plan, which clients can ask for while the model is loading. */
static void on_plan_made(void *user, const ey_plan *plan)
{
    struct model_slot *m = user;
    pthread_mutex_lock(&m->manager->lock);
    model_slot_set_plan(m, plan);
    pthread_mutex_unlock(&m->manager->lock);
}

static void on_engine_notice(void *user, const char *text)
{
    (void)user;
    log_line("%s", text);
}

/* ---- one plan for several models ---- */

/* The lock is held. */
static void apply_shared_plan(struct model_slot *m, const ey_plan *plan)
{
    model_slot_set_plan(m, plan);
    m->shared_bytes = plan->shared_bytes;
    m->info.shares_memory = !plan->resident;
    if (plan->on_gpu) {
        m->options.gpu_memory = plan->total_bytes;
        m->options.gpu_memory_utilization = 0;
    }
    if (!plan->resident) m->state = MODEL_UNLOADED;
}

static bool check_models_fit(const struct model_manager *k, const ey_plan *plan, ey_err *e)
{
    for (size_t i = 0; i < k->n_models; i++)
        if (!plan[i].fits)
            return ey_fail(e, EY_NO_MEMORY,
                           "%s does not fit, not even alone: it needs %llu MiB (may use %s); "
                           "eyelet plan shows how to make it fit",
                           k->model[i].label, (unsigned long long)(plan[i].total_bytes >> 20),
                           plan[i].budget_rule);
    return true;
}

/* Called and returns with the lock held, which it releases while it reads files. */
static bool plan_all_models(struct model_manager *k, ey_err *e)
{
    ey_engine_options options[SERVER_MAX_MODELS];
    ey_multi_model_plan combined;
    ey_plan *plan = calloc(k->n_models, sizeof(*plan));
    for (size_t i = 0; i < k->n_models; i++) {
        options[i] = k->model[i].options;
        options[i].progress = NULL;
        options[i].planned = NULL;
        options[i].notice = NULL; /* notices are reported when the model is loaded */
    }
    pthread_mutex_unlock(&k->lock);
    bool ok = plan ? ey_multi_model_plan_make(options, k->n_models, plan, &combined, e) &&
                         check_models_fit(k, plan, e)
                   : ey_fail_memory(e, "a plan", k->n_models * sizeof(*plan));
    pthread_mutex_lock(&k->lock);
    if (ok) k->capacity_bytes = combined.capacity_bytes;
    for (size_t i = 0; ok && i < k->n_models; i++)
        apply_shared_plan(&k->model[i], &plan[i]);
    free(plan);
    return ok;
}

static void fail_all_models(struct model_manager *k, const ey_err *e)
{
    for (size_t i = 0; i < k->n_models; i++) {
        k->model[i].state = MODEL_FAILED;
        k->model[i].error = *e;
    }
    pthread_cond_broadcast(&k->changed);
}

/* ---- loading and unloading ---- */

/* Admits all current waiters. */
static void admit_waiters(struct model_slot *m)
{
    m->last_admitted = m->n_arrived;
    m->n_pending = m->n_waiting;
    m->requested_at = 0;
    m->last_used = m->loaded_at = seconds_now();
    m->unload_asked = false;
}

static void load_succeeded(struct model_slot *m, ey_engine *engine, double seconds)
{
    model_slot_set_engine(m, engine);
    m->memory = ey_last_gpu_memory(engine);
    m->memory_checked_at = seconds_now();
    m->engine = engine;
    m->load_seconds = seconds;
    m->state = MODEL_READY;
    m->loads++;
    m->percent = 100;
    admit_waiters(m);
}

/* A load that fails at the start ends the server; a later one may be retried. */
static void load_failed(struct model_slot *m, bool at_start, const ey_err *e)
{
    m->error = *e;
    m->failures++;
    m->requested_at = 0;
    m->state = at_start ? MODEL_FAILED : MODEL_UNLOADED;
}

/* Called and returns with the lock held, which it releases while it loads. */
static void load_model(struct model_slot *m, bool at_start)
{
    struct model_manager *k = m->manager;
    ey_engine *engine = NULL;
    ey_err e;
    m->state = MODEL_LOADING;
    m->stage = EY_PHASE_LOADING;
    m->percent = 0;
    pthread_mutex_unlock(&k->lock);
    double start = seconds_now();
    bool ok = ey_engine_open(&engine, &m->options, &e);
    double seconds = seconds_now() - start;
    pthread_mutex_lock(&k->lock);
    if (ok)
        load_succeeded(m, engine, seconds);
    else
        load_failed(m, at_start, &e);
    if (ok && !at_start)
        log_line("%s was loaded%s in %.2f s", m->label, m->loads > 1 ? " again" : "", seconds);
    if (!ok && !at_start)
        log_line("%s could not be loaded%s: %s", m->label, m->loads ? " again" : "", e.text);
    pthread_cond_broadcast(&k->changed);
}

/* Called and returns with the lock held. */
static void unload_model(struct model_slot *m, const struct model_slot *requested)
{
    struct model_manager *k = m->manager;
    ey_engine *engine = m->engine;
    ey_stats stats = ey_engine_stats(engine);
    model_stats_add(&m->unloaded_stats, &stats);
    m->state = MODEL_UNLOADED;
    m->unloads++;
    m->memory = (ey_gpu_memory){0};
    if (m->n_waiting) m->requested_at = seconds_now(); /* they arrived while it drained */
    const bool asked = m->unload_asked;
    const double idle_seconds = fmax(k->idle_seconds, m->keep_seconds);
    pthread_mutex_unlock(&k->lock);
    ey_engine_close(&engine);
    if (requested)
        log_line("%s was unloaded: %s was requested and needs its memory", m->label,
                 requested->label);
    else if (asked)
        log_line("%s was unloaded because a client asked for it; the next request loads it again",
                 m->label);
    else
        log_line("%s was unloaded after %.0f s without a request; the next one loads it again",
                 m->label, idle_seconds);
    pthread_mutex_lock(&k->lock);
    m->engine = NULL; /* its memory is free now */
}

/* ---- the thread ---- */

static double seconds_to_unload(const struct model_slot *m)
{
    if (!model_slot_is_idle(m)) return INFINITY;
    if (m->unload_asked) return 0;
    return m->manager->idle_seconds
               ? m->last_used + fmax(m->manager->idle_seconds, m->keep_seconds) - seconds_now()
               : INFINITY;
}

/* Loads the model that waiters need, or evicts another for it. Returns false if nothing can be done
 * before *until. */
static bool load_next_requested(struct model_manager *k, double *until)
{
    struct model_slot *requested = model_manager_next_load(k), *victim;
    *until = INFINITY;
    model_manager_clear_draining(k);
    if (!requested) return false;
    if (model_manager_fits(k, requested)) return load_model(requested, false), true;
    victim = model_manager_pick_victim(k, requested, until);
    if (victim) unload_model(victim, requested);
    return victim != NULL;
}

static bool do_maintenance(struct model_manager *k)
{
    for (size_t i = 0; i < k->n_models; i++) {
        struct model_slot *m = &k->model[i];
        if (seconds_to_unload(m) <= 0) return unload_model(m, NULL), true;
        if (model_slot_seconds_to_check(m) <= 0) return model_slot_check_memory(m), true;
    }
    return false;
}

static void wait_for_request(struct model_manager *k, double until)
{
    double seconds = until - seconds_now();
    for (size_t i = 0; i < k->n_models; i++)
        seconds = fmin(seconds, fmin(model_slot_seconds_to_check(&k->model[i]),
                                     seconds_to_unload(&k->model[i])));
    if (isfinite(seconds))
        wait_for_change(k, seconds > 0 ? seconds : 0);
    else
        pthread_cond_wait(&k->changed, &k->lock);
}

static void load_at_startup(struct model_manager *k)
{
    ey_err e;
    if (k->n_models > 1 && !plan_all_models(k, &e)) fail_all_models(k, &e);
    for (size_t i = 0; i < k->n_models && !k->closing; i++)
        if (k->model[i].state == MODEL_LOADING && model_manager_fits(k, &k->model[i]))
            load_model(&k->model[i], true);
        else if (k->model[i].state == MODEL_LOADING) { /* max_loaded is reached */
            k->model[i].state = MODEL_UNLOADED;
            k->model[i].info.shares_memory = true;
        }
}

static bool any_engine_leased(const struct model_manager *k)
{
    for (size_t i = 0; i < k->n_models; i++)
        if (k->model[i].n_leases || k->model[i].n_peeking) return true;
    return false;
}

static void *manager_thread(void *user)
{
    struct model_manager *k = user;
    double until;
    pthread_mutex_lock(&k->lock);
    load_at_startup(k);
    while (!k->closing)
        if (!load_next_requested(k, &until) && !do_maintenance(k)) wait_for_request(k, until);
    while (any_engine_leased(k))
        pthread_cond_wait(&k->changed, &k->lock);
    pthread_mutex_unlock(&k->lock);
    for (size_t i = k->n_models; i-- > 0;)
        ey_engine_close(&k->model[i].engine);
    return NULL;
}

static void init_model_slot(struct model_manager *k, const struct server_options *o, size_t i,
                            ey_budget *budget)
{
    struct model_slot *m = &k->model[i];
    const struct server_model *model = &o->models[i];
    m->manager = k;
    m->options = o->engine;
    m->stage = EY_PHASE_LOADING;
    m->options.model = model->path;
    m->options.budget = budget;
    m->options.progress = on_load_progress;
    m->options.progress_user = m;
    m->options.planned = on_plan_made;
    m->options.planned_user = m;
    m->options.notice = on_engine_notice;
    if (o->n_models > 1)
        snprintf(m->label, sizeof(m->label), "model %.80s",
                 model->n_names ? model->names[0] : model->path);
    else
        snprintf(m->label, sizeof(m->label), "the model");
}

bool model_manager_open(struct model_manager **out, const struct server_options *options,
                        ey_budget *budget, ey_err *e)
{
    struct model_manager *k = *out = calloc(1, sizeof(*k));
    if (!k) return ey_fail_memory(e, "the model manager", sizeof(*k));
    k->n_models = options->n_models;
    for (size_t i = 0; i < k->n_models; i++)
        init_model_slot(k, options, i, budget);
    k->idle_seconds = options->idle_unload_seconds;
    k->max_loaded = options->max_loaded;
    k->turn_seconds = options->turn_seconds;
    k->max_waiting = options->engine.max_num_queued ? options->engine.max_num_queued
                                                    : DEFAULT_MAX_WAITING;
    cond_init_monotonic(&k->changed);
    pthread_mutex_init(&k->lock, NULL);
    if (pthread_create(&k->thread, NULL, manager_thread, k) == 0) return true;
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
    free(k);
    *out = NULL;
    return ey_fail(e, EY_NO_MEMORY, "cannot start a thread to load the model");
}

void model_manager_shutdown(struct model_manager *k)
{
    pthread_mutex_lock(&k->lock);
    k->closing = true;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

void model_manager_close(struct model_manager **out)
{
    struct model_manager *k = *out;
    if (!k) return;
    model_manager_shutdown(k);
    pthread_join(k->thread, NULL);
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
    free(k);
    *out = NULL;
}

size_t model_manager_count(const struct model_manager *k)
{
    return k->n_models;
}

struct model_status model_manager_status(struct model_manager *k, size_t model)
{
    pthread_mutex_lock(&k->lock);
    const struct model_slot *m = &k->model[model];
    struct model_status report = {.state = k->closing ? MODEL_CLOSING : m->state,
                                  .stage = m->stage,
                                  .percent = m->percent,
                                  .load_seconds = m->load_seconds,
                                  .loads = m->loads,
                                  .unloads = m->unloads,
                                  .waiting = m->n_waiting,
                                  .unload_seconds = seconds_to_unload(m),
                                  .error = m->error,
                                  .memory = m->memory,
                                  .info = m->info};
    pthread_mutex_unlock(&k->lock);
    return report;
}

/* ---- lending ---- */

/* Requests a load if the model is neither loaded nor loading. */
static void request_load(struct model_slot *m)
{
    if (m->state != MODEL_UNLOADED || m->requested_at > 0) return;
    m->requested_at = seconds_now();
    pthread_cond_broadcast(&m->manager->changed);
}

static bool wait_is_over(const struct model_slot *m, int failures)
{
    return m->manager->closing || m->state == MODEL_FAILED || m->failures != failures;
}

static bool may_acquire(const struct model_slot *m, uint64_t number)
{
    return m->state == MODEL_READY && (number <= m->last_admitted || !m->draining);
}

/* Waits, with the lock held, until the engine can be leased. */
static bool wait_for_engine(struct model_slot *m, bool (*gone)(void *user), void *user, ey_err *e)
{
    struct model_manager *k = m->manager;
    const uint64_t number = ++m->n_arrived;
    const int failures = m->failures;
    bool stop = false;
    m->n_waiting++;
    while (!stop && !wait_is_over(m, failures) && !may_acquire(m, number)) {
        request_load(m);
        wait_for_change(k, WAIT_SECONDS);
        pthread_mutex_unlock(&k->lock);
        stop = gone && gone(user);
        pthread_mutex_lock(&k->lock);
    }
    m->n_waiting--;
    if (number <= m->last_admitted) m->n_pending--;
    if (!m->n_waiting && m->state == MODEL_UNLOADED) m->requested_at = 0; /* no waiter is left */
    pthread_cond_broadcast(&k->changed);
    return !stop || ey_fail(e, EY_CANCELLED, "the client left while the model was loading");
}

static bool fail_to_acquire(const struct model_slot *m, ey_err *e)
{
    if (m->manager->closing) return ey_fail(e, EY_BUSY, "the server is shutting down");
    *e = m->error;
    if (ey_code_http_status(e->code) < 500) e->code = EY_BUSY; /* not the client's fault */
    return ey_fail_within(e, "%s could not be loaded", m->label);
}

/* The lock is held. */
static bool acquire_slot(struct model_slot *m, bool (*gone)(void *user), void *user, bool *waited,
                         ey_err *e)
{
    *waited = false;
    if (m->manager->closing) return fail_to_acquire(m, e);
    if (m->state == MODEL_READY && !m->draining) return true;
    if (m->n_waiting >= m->manager->max_waiting)
        return ey_fail(e, EY_BUSY, "%d requests already wait for %s to be loaded; try again later",
                       m->n_waiting, m->label);
    *waited = true;
    if (!wait_for_engine(m, gone, user, e)) return false;
    return (m->state == MODEL_READY && !m->manager->closing) || fail_to_acquire(m, e);
}

ey_engine *model_manager_acquire(struct model_manager *k, size_t model, bool (*gone)(void *user),
                                 void *user, bool *waited, ey_err *e)
{
    struct model_slot *m = &k->model[model];
    pthread_mutex_lock(&k->lock);
    ey_engine *engine = acquire_slot(m, gone, user, waited, e) ? m->engine : NULL;
    if (engine) m->n_leases++;
    if (engine) m->unload_asked = false; /* it is needed again */
    pthread_mutex_unlock(&k->lock);
    return engine;
}

void model_manager_release(struct model_manager *k, size_t model)
{
    pthread_mutex_lock(&k->lock);
    k->model[model].n_leases--;
    k->model[model].last_used = seconds_now();
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

void model_manager_keep(struct model_manager *k, size_t model, double seconds)
{
    pthread_mutex_lock(&k->lock);
    k->model[model].keep_seconds = seconds;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

void model_manager_unload(struct model_manager *k, size_t model)
{
    pthread_mutex_lock(&k->lock);
    k->model[model].unload_asked = k->model[model].state == MODEL_READY;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

/* Borrows the engine without waiting and without counting as use; it stays open meanwhile. */
static ey_engine *peek_engine(struct model_slot *m)
{
    pthread_mutex_lock(&m->manager->lock);
    ey_engine *engine = m->state == MODEL_READY && !m->manager->closing ? m->engine : NULL;
    if (engine) m->n_peeking++;
    pthread_mutex_unlock(&m->manager->lock);
    return engine;
}

ey_stats model_manager_stats(struct model_manager *k, size_t model)
{
    struct model_slot *m = &k->model[model];
    ey_engine *engine = peek_engine(m);
    ey_stats stats = engine ? ey_engine_stats(engine) : (ey_stats){0};
    pthread_mutex_lock(&k->lock);
    model_stats_add(&stats, &m->unloaded_stats);
    m->n_peeking -= engine != NULL;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
    return stats;
}

bool model_manager_is_stuck(struct model_manager *k, size_t model)
{
    struct model_status report = model_manager_status(k, model);
    return report.info.loaded_once &&
           model_manager_stats(k, model).heartbeat_age > report.info.stuck_seconds;
}
