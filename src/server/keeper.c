/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper: one thread opens and closes engines; everybody else only counts up and down. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "server/keeper_internal.h"
#include "server/log.h"

enum { DEFAULT_WAITING = 64 };
#define WAIT_SECONDS 0.1

static void wait_at_most(struct keeper *k, double seconds)
{
    double until = seconds_now() + seconds;
    struct timespec t = {.tv_sec = (time_t)until,
                         .tv_nsec = (long)(1e9 * (until - (double)(time_t)until))};
    pthread_cond_timedwait(&k->changed, &k->lock, &t);
}

/* ---- what engines tell while they are opened ---- */

static void note_progress(void *user, const char *phase, uint64_t done, uint64_t total)
{
    struct kept *m = user;
    pthread_mutex_lock(&m->keeper->lock);
    m->stage = phase;
    m->percent = total ? (int)(100.0 * (double)done / (double)total) : 0;
    pthread_mutex_unlock(&m->keeper->lock);
}

/* What clients ask for while the model is loading. */
static void note_plan(void *user, const ey_plan *plan)
{
    struct kept *m = user;
    pthread_mutex_lock(&m->keeper->lock);
    kept_note_plan(m, plan);
    pthread_mutex_unlock(&m->keeper->lock);
}

static void log_notice(void *user, const char *text)
{
    (void)user;
    log_line("%s", text);
}

/* ---- one plan over several ---- */

/* The lock is held. */
static void use_plan(struct kept *m, const ey_plan *plan)
{
    kept_note_plan(m, plan);
    m->bytes = plan->shared_bytes;
    m->facts.takes_turns = !plan->resident;
    if (strcmp(plan->device, "cuda") == 0) {
        m->options.gpu_memory = plan->total_bytes;
        m->options.gpu_memory_utilization = 0;
    }
    if (!plan->resident) m->state = KEEPER_UNLOADED;
}

static bool check_fit(const struct keeper *k, const ey_plan *plan, ey_err *e)
{
    for (size_t i = 0; i < k->n; i++)
        if (!plan[i].fits)
            return ey_fail(e, EY_NO_MEMORY,
                           "%s does not fit, not even alone: it needs %llu MiB (may use %s); "
                           "eyelet plan says what changes that",
                           k->model[i].label, (unsigned long long)(plan[i].total_bytes >> 20),
                           plan[i].budget_rule);
    return true;
}

/* Called and returns with the lock held, which it lets go of while it reads files. */
static bool plan_all(struct keeper *k, ey_err *e)
{
    ey_engine_options options[SERVER_MAX_MODELS];
    ey_models_plan room;
    ey_plan *plan = calloc(k->n, sizeof(*plan));
    for (size_t i = 0; i < k->n; i++) {
        options[i] = k->model[i].options;
        options[i].progress = NULL;
        options[i].planned = NULL;
        options[i].notice = NULL; /* they are told when it is loaded */
    }
    pthread_mutex_unlock(&k->lock);
    bool ok = plan ? ey_plan_models(options, k->n, plan, &room, e) && check_fit(k, plan, e)
                   : ey_fail_memory(e, "a plan", k->n * sizeof(*plan));
    pthread_mutex_lock(&k->lock);
    if (ok) k->room = room.room_bytes;
    for (size_t i = 0; ok && i < k->n; i++)
        use_plan(&k->model[i], &plan[i]);
    free(plan);
    return ok;
}

static void fail_all(struct keeper *k, const ey_err *e)
{
    for (size_t i = 0; i < k->n; i++) {
        k->model[i].state = KEEPER_FAILED;
        k->model[i].error = *e;
    }
    pthread_cond_broadcast(&k->changed);
}

/* ---- loading and unloading ---- */

/* Whoever waited until now is let in; where it failed, they are told why. */
static void let_in(struct kept *m)
{
    m->admitted = m->n_came;
    m->owed = m->waiting;
    m->wanted = 0;
    m->used = m->since = seconds_now();
}

static void note_loaded(struct kept *m, ey_engine *engine, double seconds)
{
    kept_note_engine(m, engine);
    m->memory = ey_last_memory(engine);
    m->looked = seconds_now();
    m->engine = engine;
    m->load_seconds = seconds;
    m->state = KEEPER_READY;
    m->loads++;
    m->percent = 100;
    let_in(m);
}

/* At the start a model that cannot be loaded ends the server; later the same may go well another
 * time. */
static void note_failed(struct kept *m, bool at_start, const ey_err *e)
{
    m->error = *e;
    m->failures++;
    m->wanted = 0;
    m->state = at_start ? KEEPER_FAILED : KEEPER_UNLOADED;
}

/* Called and returns with the lock held, which it lets go of while it loads. */
static void load(struct kept *m, bool at_start)
{
    struct keeper *k = m->keeper;
    ey_engine *engine = NULL;
    ey_err e;
    m->state = KEEPER_LOADING;
    m->stage = "loading";
    m->percent = 0;
    pthread_mutex_unlock(&k->lock);
    double start = seconds_now();
    bool ok = ey_engine_open(&engine, &m->options, &e);
    double seconds = seconds_now() - start;
    pthread_mutex_lock(&k->lock);
    if (ok)
        note_loaded(m, engine, seconds);
    else
        note_failed(m, at_start, &e);
    if (ok && !at_start)
        log_line("%s was loaded%s in %.2f s", m->label, m->loads > 1 ? " again" : "", seconds);
    if (!ok && !at_start)
        log_line("%s could not be loaded%s: %s", m->label, m->loads ? " again" : "", e.text);
    pthread_cond_broadcast(&k->changed);
}

/* Called and returns with the lock held. */
static void unload(struct kept *m, const struct kept *wanted)
{
    struct keeper *k = m->keeper;
    ey_engine *engine = m->engine;
    ey_stats stats = ey_engine_stats(engine);
    stats_add(&m->past, &stats);
    m->state = KEEPER_UNLOADED;
    m->unloads++;
    m->memory = (ey_memory){0};
    if (m->waiting) m->wanted = seconds_now(); /* at its door while it was shut */
    pthread_mutex_unlock(&k->lock);
    ey_engine_close(&engine);
    if (wanted)
        log_line("%s was unloaded: %s is asked for and needs its room", m->label, wanted->label);
    else
        log_line("%s was unloaded: nobody asked for %d s; the next request loads it again",
                 m->label, k->idle_seconds);
    pthread_mutex_lock(&k->lock);
    m->engine = NULL; /* now it takes no room */
}

/* ---- the thread ---- */

static double seconds_to_unload(const struct kept *m)
{
    return kept_is_idle(m) && m->keeper->idle_seconds
               ? m->used + m->keeper->idle_seconds - seconds_now()
               : INFINITY;
}

/* Makes room for the model that is waited for, or loads it. False: nothing can be done before
 * *until. */
static bool serve_wanted(struct keeper *k, double *until)
{
    struct kept *wanted = keeper_next(k), *victim;
    *until = INFINITY;
    keeper_open_doors(k);
    if (!wanted) return false;
    if (keeper_has_room(k, wanted)) return load(wanted, false), true;
    victim = keeper_victim(k, wanted, until);
    if (victim) unload(victim, wanted);
    return victim != NULL;
}

static bool tidy(struct keeper *k)
{
    for (size_t i = 0; i < k->n; i++) {
        struct kept *m = &k->model[i];
        if (seconds_to_unload(m) <= 0) return unload(m, NULL), true;
        if (kept_seconds_to_look(m) <= 0) return kept_look(m), true;
    }
    return false;
}

static void wait_for_work(struct keeper *k, double until)
{
    double seconds = until - seconds_now();
    for (size_t i = 0; i < k->n; i++)
        seconds = fmin(seconds,
                       fmin(kept_seconds_to_look(&k->model[i]), seconds_to_unload(&k->model[i])));
    if (isfinite(seconds))
        wait_at_most(k, seconds > 0 ? seconds : 0);
    else
        pthread_cond_wait(&k->changed, &k->lock);
}

static void start(struct keeper *k)
{
    ey_err e;
    if (k->n > 1 && !plan_all(k, &e)) fail_all(k, &e);
    for (size_t i = 0; i < k->n && !k->closing; i++)
        if (k->model[i].state == KEEPER_LOADING && keeper_has_room(k, &k->model[i]))
            load(&k->model[i], true);
        else if (k->model[i].state == KEEPER_LOADING) {
            k->model[i].state = KEEPER_UNLOADED;
            k->model[i].facts.takes_turns = true;
        } /* max_loaded */
}

static bool is_lent(const struct keeper *k)
{
    for (size_t i = 0; i < k->n; i++)
        if (k->model[i].borrowed || k->model[i].peeking) return true;
    return false;
}

static void *keep(void *user)
{
    struct keeper *k = user;
    double until;
    pthread_mutex_lock(&k->lock);
    start(k);
    while (!k->closing)
        if (!serve_wanted(k, &until) && !tidy(k)) wait_for_work(k, until);
    while (is_lent(k))
        pthread_cond_wait(&k->changed, &k->lock);
    pthread_mutex_unlock(&k->lock);
    for (size_t i = k->n; i-- > 0;)
        ey_engine_close(&k->model[i].engine);
    return NULL;
}

static void open_model(struct keeper *k, const struct server_options *o, size_t i,
                       ey_budget *budget)
{
    struct kept *m = &k->model[i];
    const struct server_model *model = &o->models[i];
    m->keeper = k;
    m->options = o->engine;
    m->stage = "loading";
    m->options.model = model->path;
    m->options.budget = budget;
    m->options.progress = note_progress;
    m->options.progress_user = m;
    m->options.planned = note_plan;
    m->options.planned_user = m;
    m->options.notice = log_notice;
    if (o->n_models > 1)
        snprintf(m->label, sizeof(m->label), "model %.80s",
                 model->n_names ? model->names[0] : model->path);
    else
        snprintf(m->label, sizeof(m->label), "the model");
}

bool keeper_open(struct keeper **out, const struct server_options *options, ey_budget *budget,
                 ey_err *e)
{
    struct keeper *k = *out = calloc(1, sizeof(*k));
    pthread_condattr_t monotonic;
    if (!k) return ey_fail_memory(e, "the engines' keeper", sizeof(*k));
    k->n = options->n_models;
    for (size_t i = 0; i < k->n; i++)
        open_model(k, options, i, budget);
    k->idle_seconds = options->idle_unload_seconds;
    k->max_loaded = options->max_loaded;
    k->turn_seconds = options->turn_seconds;
    k->max_waiting = options->engine.max_num_queued ? options->engine.max_num_queued
                                                    : DEFAULT_WAITING;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&k->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&k->lock, NULL);
    if (pthread_create(&k->thread, NULL, keep, k) == 0) return true;
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
    free(k);
    *out = NULL;
    return ey_fail(e, EY_NO_MEMORY, "cannot start a thread to load the model");
}

void keeper_shut(struct keeper *k)
{
    pthread_mutex_lock(&k->lock);
    k->closing = true;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

void keeper_close(struct keeper **out)
{
    struct keeper *k = *out;
    if (!k) return;
    keeper_shut(k);
    pthread_join(k->thread, NULL);
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
    free(k);
    *out = NULL;
}

size_t keeper_models(const struct keeper *k)
{
    return k->n;
}

struct keeper_report keeper_state(struct keeper *k, size_t model)
{
    pthread_mutex_lock(&k->lock);
    const struct kept *m = &k->model[model];
    struct keeper_report report = {.state = k->closing ? KEEPER_CLOSING : m->state,
                                   .stage = m->stage,
                                   .percent = m->percent,
                                   .load_seconds = m->load_seconds,
                                   .loads = m->loads,
                                   .unloads = m->unloads,
                                   .waiting = m->waiting,
                                   .error = m->error,
                                   .memory = m->memory,
                                   .facts = m->facts};
    pthread_mutex_unlock(&k->lock);
    return report;
}

/* ---- lending ---- */

/* Where it is neither loaded nor about to be, somebody has to load it. */
static void want(struct kept *m)
{
    if (m->state != KEEPER_UNLOADED || m->wanted > 0) return;
    m->wanted = seconds_now();
    pthread_cond_broadcast(&m->keeper->changed);
}

static bool is_over(const struct kept *m, int failures)
{
    return m->keeper->closing || m->state == KEEPER_FAILED || m->failures != failures;
}

static bool may_enter(const struct kept *m, uint64_t number)
{
    return m->state == KEEPER_READY && (number <= m->admitted || !m->shut);
}

/* Waits until the engine may be had; the lock is held. */
static bool wait_in_line(struct kept *m, bool (*gone)(void *user), void *user, ey_err *e)
{
    struct keeper *k = m->keeper;
    const uint64_t number = ++m->n_came;
    const int failures = m->failures;
    bool stop = false;
    m->waiting++;
    while (!stop && !is_over(m, failures) && !may_enter(m, number)) {
        want(m);
        wait_at_most(k, WAIT_SECONDS);
        pthread_mutex_unlock(&k->lock);
        stop = gone && gone(user);
        pthread_mutex_lock(&k->lock);
    }
    m->waiting--;
    if (number <= m->admitted) m->owed--;
    if (!m->waiting && m->state == KEEPER_UNLOADED) m->wanted = 0; /* nobody wants it any more */
    pthread_cond_broadcast(&k->changed);
    return !stop || ey_fail(e, EY_CANCELLED, "the client left while the model was loading");
}

static bool fail_to_lend(const struct kept *m, ey_err *e)
{
    if (m->keeper->closing) return ey_fail(e, EY_BUSY, "the server is shutting down");
    *e = m->error;
    if (ey_code_http_status(e->code) < 500) e->code = EY_BUSY; /* it is not the client's fault */
    return ey_fail_within(e, "%s could not be loaded", m->label);
}

/* The lock is held. */
static bool get_in(struct kept *m, bool (*gone)(void *user), void *user, bool *waited, ey_err *e)
{
    *waited = false;
    if (m->keeper->closing) return fail_to_lend(m, e);
    if (m->state == KEEPER_READY && !m->shut) return true;
    if (m->waiting >= m->keeper->max_waiting)
        return ey_fail(e, EY_BUSY, "%d requests wait already for %s to be loaded; ask again later",
                       m->waiting, m->label);
    *waited = true;
    if (!wait_in_line(m, gone, user, e)) return false;
    return (m->state == KEEPER_READY && !m->keeper->closing) || fail_to_lend(m, e);
}

ey_engine *keeper_borrow(struct keeper *k, size_t model, bool (*gone)(void *user), void *user,
                         bool *waited, ey_err *e)
{
    struct kept *m = &k->model[model];
    pthread_mutex_lock(&k->lock);
    ey_engine *engine = get_in(m, gone, user, waited, e) ? m->engine : NULL;
    if (engine) m->borrowed++;
    pthread_mutex_unlock(&k->lock);
    return engine;
}

void keeper_return(struct keeper *k, size_t model)
{
    pthread_mutex_lock(&k->lock);
    k->model[model].borrowed--;
    k->model[model].used = seconds_now();
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

/* A look neither waits nor counts as use; the engine stays while one is taken. */
static ey_engine *peek(struct kept *m)
{
    pthread_mutex_lock(&m->keeper->lock);
    ey_engine *engine = m->state == KEEPER_READY && !m->keeper->closing ? m->engine : NULL;
    if (engine) m->peeking++;
    pthread_mutex_unlock(&m->keeper->lock);
    return engine;
}

ey_stats keeper_stats(struct keeper *k, size_t model)
{
    struct kept *m = &k->model[model];
    ey_engine *engine = peek(m);
    ey_stats stats = engine ? ey_engine_stats(engine) : (ey_stats){0};
    pthread_mutex_lock(&k->lock);
    stats_add(&stats, &m->past);
    m->peeking -= engine != NULL;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
    return stats;
}

bool keeper_is_stuck(struct keeper *k, size_t model)
{
    struct keeper_report report = keeper_state(k, model);
    return report.facts.loaded_once && keeper_stats(k, model).beat_age > report.facts.stuck_seconds;
}
