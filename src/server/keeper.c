/* The keeper: one thread opens and closes the engine; everybody else only counts up and down. */
#include "server/keeper.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "server/log.h"

enum { DEFAULT_BATCHED_TOKENS = 512 };
#define WAIT_SECONDS 0.1
/* How often the card's memory is looked at where somebody asked since, or it had spilled; and while requests run. */
#define LOOK_SECONDS 60.0
#define BUSY_LOOK_SECONDS 300.0

struct keeper {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    ey_engine_options options;
    int idle_seconds;
    ey_engine *engine; /* READY */
    enum keeper_state state;
    const char *stage;
    int percent;
    double load_seconds, used; /* used: when it was last given back */
    int borrowed, peeking, loads, unloads, failures;
    bool wanted; /* somebody waits for an engine that was unloaded */
    ey_err error; /* of the last load that failed */
    ey_memory memory; /* the engine's */
    double looked;
    ey_stats past;
    struct keeper_facts facts;
};

/* ---- what it learns ---- */

static void note_progress(void *user, const char *phase, uint64_t done, uint64_t total)
{
    struct keeper *k = user;
    pthread_mutex_lock(&k->lock);
    k->stage = phase, k->percent = total ? (int)(100.0 * (double)done / (double)total) : 0;
    pthread_mutex_unlock(&k->lock);
}

/* A step computes max_num_batched_tokens rows or a slice of a picture; a machine does at least this many multiply-adds a
 * second with a thread, ten times fewer than the slowest that was measured. */
static double stuck_seconds(const ey_engine *engine, const ey_engine_options *options, const ey_engine_info *info)
{
    enum { LEAST = 60, SIDE = 1024 };
    double rate = strcmp(info->device, "ref") == 0 ? 5e7 : 1e9;
    int rows = options->max_num_batched_tokens ? options->max_num_batched_tokens : DEFAULT_BATCHED_TOKENS;
    ey_work work = ey_work_of(engine, SIDE, SIDE, rows < info->max_model_len ? rows : info->max_model_len);
    return LEAST + (work.prefill_flops + work.vision_flops) / (rate * info->threads);
}

static void copy_fact(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text ? text : "");
}

static void learn_facts(struct keeper *k, const ey_engine *engine)
{
    ey_engine_info info = ey_engine_describe(engine);
    struct keeper_facts *f = &k->facts;
    copy_fact(f->architecture, sizeof(f->architecture), info.architecture);
    copy_fact(f->device, sizeof(f->device), info.device);
    copy_fact(f->device_detail, sizeof(f->device_detail), info.device_detail);
    f->threads = info.threads, f->max_model_len = info.max_model_len;
    f->kv_tokens = info.kv_tokens, f->max_num_seqs = info.max_num_seqs, f->kv_bytes = info.kv_bytes;
    f->stuck_seconds = stuck_seconds(engine, &k->options, &info);
    f->loaded_once = true;
}

/* What clients ask for while the model is loading. */
static void note_plan(void *user, const ey_plan *plan)
{
    struct keeper *k = user;
    struct keeper_facts *f = &k->facts;
    pthread_mutex_lock(&k->lock);
    memcpy(f->item, plan->items, sizeof(f->item));
    f->n_items = plan->n_items;
    memcpy(f->choice, plan->choices, sizeof(f->choice));
    f->n_choices = plan->n_choices;
    copy_fact(f->budget_rule, sizeof(f->budget_rule), plan->budget_rule);
    f->total_bytes = plan->total_bytes, f->budget_bytes = plan->budget_bytes, f->max_pixels = plan->max_pixels;
    f->max_model_len = plan->max_model_len, f->kv_tokens = plan->kv_tokens, f->max_num_seqs = plan->max_num_seqs;
    copy_fact(f->device, sizeof(f->device), plan->device);
    f->planned = true;
    pthread_mutex_unlock(&k->lock);
}

/* ---- the card's memory ---- */

static void log_notice(void *user, const char *text)
{
    (void)user;
    log_line("%s", text);
}

/* 0: now; INFINITY: not while all stays as it is. */
static double seconds_to_look(const struct keeper *k)
{
    if (k->state != KEEPER_READY || !k->memory.known) return INFINITY;
    if (!k->borrowed && k->used <= k->looked && !k->memory.spilled) return INFINITY;
    double left = k->looked + (k->borrowed ? BUSY_LOOK_SECONDS : LOOK_SECONDS) - seconds_now();
    return left > 0 ? left : 0;
}

/* Called and returns with the lock held. Only this thread closes the engine, so it stays. */
static void look(struct keeper *k)
{
    ey_memory memory;
    ey_err e;
    char text[400];
    bool had_spilled = k->memory.spilled;
    pthread_mutex_unlock(&k->lock);
    bool ok = ey_probe_memory(k->engine, &memory, &e);
    if (!ok) log_line("the card's memory could not be looked at: %s", e.text);
    if (ok && !had_spilled && ey_memory_warning(&memory, text, sizeof(text))) log_line("%s", text);
    if (ok && had_spilled && !memory.spilled) log_line("all of the card's memory is as fast again as it should be");
    pthread_mutex_lock(&k->lock);
    if (ok) k->memory = memory;
    k->looked = seconds_now();
}

/* ---- loading and unloading ---- */

/* Called and returns with the lock held, which it lets go of while it loads. */
static void load(struct keeper *k)
{
    ey_engine *engine = NULL;
    ey_err e;
    k->state = KEEPER_LOADING, k->stage = "loading", k->percent = 0, k->wanted = false;
    pthread_mutex_unlock(&k->lock);
    double start = seconds_now();
    bool ok = ey_engine_open(&engine, &k->options, &e);
    double seconds = seconds_now() - start;
    pthread_mutex_lock(&k->lock);
    if (ok) {
        learn_facts(k, engine);
        k->memory = ey_last_memory(engine), k->looked = seconds_now();
        k->engine = engine, k->load_seconds = seconds, k->used = seconds_now();
        k->loads++, k->percent = 100;
        if (k->state == KEEPER_LOADING) k->state = KEEPER_READY;
    } else {
        k->error = e, k->failures++;
        if (k->state == KEEPER_LOADING) k->state = k->loads ? KEEPER_UNLOADED : KEEPER_FAILED;
    }
    if (ok && k->loads > 1) log_line("the model was loaded again in %.2f s", seconds);
    if (!ok && k->loads) log_line("the model could not be loaded again: %s", e.text);
    pthread_cond_broadcast(&k->changed);
}

static void add_stats(ey_stats *sum, const ey_stats *s)
{
    sum->prompt_tokens += s->prompt_tokens, sum->cached_tokens += s->cached_tokens, sum->generated_tokens += s->generated_tokens;
    sum->preemptions += s->preemptions, sum->steps += s->steps;
    sum->images += s->images, sum->images_cached += s->images_cached, sum->tower_runs += s->tower_runs;
    sum->finished_stop += s->finished_stop, sum->finished_length += s->finished_length;
    sum->finished_cancelled += s->finished_cancelled, sum->failed += s->failed;
    sum->vision_seconds += s->vision_seconds, sum->step_seconds += s->step_seconds;
}

static bool is_idle(const struct keeper *k)
{
    return k->state == KEEPER_READY && !k->borrowed && !k->peeking && k->idle_seconds && seconds_now() - k->used >= k->idle_seconds;
}

static void unload(struct keeper *k)
{
    ey_engine *engine = k->engine;
    ey_stats stats = ey_engine_stats(engine);
    add_stats(&k->past, &stats);
    k->engine = NULL, k->state = KEEPER_UNLOADED, k->unloads++, k->memory = (ey_memory){0};
    pthread_mutex_unlock(&k->lock);
    ey_engine_close(&engine);
    log_line("the model was unloaded: nobody asked for %d s; the next request loads it again", k->idle_seconds);
    pthread_mutex_lock(&k->lock);
}

/* ---- the thread ---- */

static void wait_at_most(struct keeper *k, double seconds)
{
    double until = seconds_now() + seconds;
    struct timespec t = {.tv_sec = (time_t)until, .tv_nsec = (long)(1e9 * (until - (double)(time_t)until))};
    pthread_cond_timedwait(&k->changed, &k->lock, &t);
}

static void wait_for_work(struct keeper *k)
{
    bool may_idle = k->state == KEEPER_READY && k->idle_seconds && !k->borrowed && !k->peeking;
    double seconds = fmin(seconds_to_look(k), may_idle ? k->used + k->idle_seconds - seconds_now() : INFINITY);
    if (isfinite(seconds)) wait_at_most(k, seconds);
    else pthread_cond_wait(&k->changed, &k->lock);
}

static void *keep(void *user)
{
    struct keeper *k = user;
    pthread_mutex_lock(&k->lock);
    if (k->state == KEEPER_LOADING) load(k);
    while (k->state != KEEPER_CLOSING) {
        if (k->state == KEEPER_UNLOADED && k->wanted) load(k);
        else if (is_idle(k)) unload(k);
        else if (seconds_to_look(k) <= 0) look(k);
        else wait_for_work(k);
    }
    while (k->borrowed || k->peeking) pthread_cond_wait(&k->changed, &k->lock);
    pthread_mutex_unlock(&k->lock);
    ey_engine_close(&k->engine);
    return NULL;
}

bool keeper_open(struct keeper **out, const struct server_options *options, ey_budget *budget, ey_err *e)
{
    struct keeper *k = *out = calloc(1, sizeof(*k));
    pthread_condattr_t monotonic;
    if (!k) return ey_fail_memory(e, "the engine's keeper", sizeof(*k));
    k->options = options->engine;
    k->options.budget = budget, k->options.progress = note_progress, k->options.progress_user = k;
    k->options.planned = note_plan, k->options.planned_user = k;
    k->options.notice = log_notice;
    k->idle_seconds = options->idle_unload_seconds, k->stage = "loading";
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
    k->state = KEEPER_CLOSING;
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

struct keeper_report keeper_state(struct keeper *k)
{
    pthread_mutex_lock(&k->lock);
    struct keeper_report report = {.state = k->state, .stage = k->stage, .percent = k->percent, .load_seconds = k->load_seconds,
                                   .loads = k->loads, .unloads = k->unloads, .error = k->error, .memory = k->memory, .facts = k->facts};
    pthread_mutex_unlock(&k->lock);
    return report;
}

/* ---- lending ---- */

/* Waits until there is an engine; the lock is held. */
static bool wait_for_engine(struct keeper *k, bool (*gone)(void *user), void *user, ey_err *e)
{
    int failures = k->failures;
    while (k->state == KEEPER_LOADING || (k->state == KEEPER_UNLOADED && k->failures == failures)) {
        if (k->state == KEEPER_UNLOADED && !k->wanted) {
            k->wanted = true;
            pthread_cond_broadcast(&k->changed);
        }
        wait_at_most(k, WAIT_SECONDS);
        pthread_mutex_unlock(&k->lock);
        bool stop = gone && gone(user);
        pthread_mutex_lock(&k->lock);
        if (stop) return ey_fail(e, EY_CANCELLED, "the client left while the model was loading");
    }
    if (k->state == KEEPER_READY) return true;
    if (k->state == KEEPER_CLOSING) return ey_fail(e, EY_BUSY, "the server is shutting down");
    *e = k->error;
    if (ey_code_http_status(e->code) < 500) e->code = EY_BUSY; /* it is not the client's fault */
    return ey_fail_within(e, "the model could not be loaded");
}

ey_engine *keeper_borrow(struct keeper *k, bool (*gone)(void *user), void *user, ey_err *e)
{
    pthread_mutex_lock(&k->lock);
    ey_engine *engine = wait_for_engine(k, gone, user, e) ? k->engine : NULL;
    if (engine) k->borrowed++;
    pthread_mutex_unlock(&k->lock);
    return engine;
}

void keeper_return(struct keeper *k)
{
    pthread_mutex_lock(&k->lock);
    k->borrowed--, k->used = seconds_now();
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

/* A look neither waits nor counts as use; the engine stays while one is taken. */
static ey_engine *peek(struct keeper *k)
{
    pthread_mutex_lock(&k->lock);
    ey_engine *engine = k->state == KEEPER_READY ? k->engine : NULL;
    if (engine) k->peeking++;
    pthread_mutex_unlock(&k->lock);
    return engine;
}

ey_stats keeper_stats(struct keeper *k)
{
    ey_engine *engine = peek(k);
    ey_stats stats = engine ? ey_engine_stats(engine) : (ey_stats){0};
    pthread_mutex_lock(&k->lock);
    add_stats(&stats, &k->past);
    k->peeking -= engine != NULL;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
    return stats;
}

bool keeper_is_stuck(struct keeper *k)
{
    struct keeper_report report = keeper_state(k);
    return report.facts.loaded_once && keeper_stats(k).beat_age > report.facts.stuck_seconds;
}
