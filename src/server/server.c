/* SPDX-License-Identifier: Apache-2.0 */
/* The server from its start to its end: the port, the keeper, the web; then signals. */
#include "server/server.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "server/banner.h"
#include "server/door.h"
#include "server/log.h"
#include "server/supervisor.h"
#include "server/web.h"

#define TICK_SECONDS 0.25
#define FINAL_SECONDS 2.0 /* for the last events of streams to go out */
enum { MOST_GRAMMAR_BYTES = 32 << 20 };
enum {
    MAPPED_FROM = 128 << 10
}; /* bytes: pictures and bodies go back to the system, whichever thread freed them */
static const uint64_t most_host_bytes = (uint64_t)1 << 30;

struct server_options server_defaults(void)
{
    return (struct server_options){.engine = ey_engine_defaults(),
                                   .host = "127.0.0.1",
                                   .port = 8000,
                                   .seed = -1,
                                   .max_images = SERVER_DEFAULT_IMAGES,
                                   .drain_seconds = 30,
                                   .header_seconds = 10,
                                   .body_seconds = 60,
                                   .idle_seconds = 30,
                                   .stall_seconds = 30,
                                   .turn_seconds = 5};
}

/* ---- what routes ask of it ---- */

struct borrower {
    struct server *server;
    struct exchange *x;
};

static bool is_gone(void *user)
{
    struct borrower *b = user;
    return exchange_hung_up(b->x) || server_ending(b->server);
}

bool server_borrow(struct server *server, size_t model, struct exchange *x, struct loan *out,
                   ey_err *e)
{
    struct borrower borrower = {server, x};
    struct keeper_report before = keeper_state(server->keeper, model);
    *out = (struct loan){.model = model};
    out->engine = keeper_borrow(server->keeper, model, is_gone, &borrower, &out->waited, e);
    if (!out->engine && server_ending(server))
        return ey_fail(e, EY_BUSY, "the server is shutting down");
    const bool at_start = before.state == KEEPER_LOADING && !before.loads;
    if (!out->engine || before.state == KEEPER_READY || at_start) return out->engine != NULL;
    char seconds[32];
    snprintf(seconds, sizeof(seconds), "%.3f", keeper_state(server->keeper, model).load_seconds);
    exchange_add_header(x, "X-Eyelet-Reload-Seconds", seconds);
    return true;
}

void server_return(struct server *server, struct loan *loan)
{
    if (loan->engine) keeper_return(server->keeper, loan->model);
    loan->engine = NULL;
}

/* ---- signals ---- */

/* SIGTERM and SIGINT, unless whoever started us keeps Ctrl-C from us, as shells do with &. */
static sigset_t stop_signals(void)
{
    sigset_t set;
    struct sigaction interrupt;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    if (sigaction(SIGINT, NULL, &interrupt) == 0 && interrupt.sa_handler != SIG_IGN)
        sigaddset(&set, SIGINT);
    return set;
}

/* Whether one came within so many seconds. */
static bool wait_for_signal(const sigset_t *set, double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds,
                         .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
    return sigtimedwait(set, NULL, &t) > 0;
}

/* ---- running ---- */

static bool check(const struct server_options *o, const struct listener *l, ey_err *e)
{
    if (l->loopback || o->n_keys || o->insecure) return true;
    return ey_fail(e, EY_BAD_REQUEST,
                   "--host %s lets others on the network use this server; give it an --api-key (or "
                   "VLLM_API_KEY), or say "
                   "--insecure if everybody may",
                   o->host);
}

static uint64_t host_bytes(const struct server_options *o)
{
    uint64_t quarter = memory_available() / 4;
    if (o->host_bytes) return o->host_bytes;
    return quarter < most_host_bytes ? quarter : most_host_bytes;
}

static bool is_stuck(struct server *server)
{
    bool stuck = false;
    for (size_t i = 0; i < keeper_models(server->keeper); i++)
        stuck |= keeper_is_stuck(server->keeper, i);
    return stuck;
}

static void tick(struct server *server, struct throughput *throughput)
{
    connections_sweep(web_connections(server->web));
    for (size_t i = 0; i < keeper_models(server->keeper) && !server->options->quiet; i++)
        throughput_tell(&throughput[i], server->keeper, i);
    if (server->watched && !is_stuck(server)) supervisor_tell("WATCHDOG=1\n");
}

/* Whether all that is to be loaded at the start has been. False with *failed: a model could not be.
 */
static bool has_started(struct server *server, bool *failed, ey_err *e)
{
    bool started = true;
    for (size_t i = 0; i < keeper_models(server->keeper); i++) {
        struct keeper_report k = keeper_state(server->keeper, i);
        if (k.state == KEEPER_FAILED) return *e = k.error, *failed = true, false;
        started &= k.state != KEEPER_LOADING || k.loads;
    }
    return started;
}

/* Until the first signal. False: a model could not be loaded. */
static bool serve(struct server *server, const sigset_t *signals, const char *url, double start,
                  ey_err *e)
{
    struct throughput throughput[SERVER_MAX_MODELS] = {0};
    bool told = false, failed = false;
    while (!wait_for_signal(signals, told ? TICK_SECONDS : TICK_SECONDS / 10)) {
        tick(server, throughput);
        if (told || !has_started(server, &failed, e)) {
            if (failed) return false;
            continue;
        }
        told = true;
        if (!server->options->quiet) banner_models(server);
        log_line("eyelet ready on %s in %.1f s", url, seconds_now() - start);
        supervisor_tell("READY=1\nSTATUS=%.200s on %s\n", server_model_name(server, 0), url);
    }
    return true;
}

static bool is_busy(struct server *server)
{
    return connections_count(web_connections(server->web)).busy > 0;
}

/* Lets what runs come to its end. False: a second signal came. */
static bool drain(struct server *server, const sigset_t *signals)
{
    struct throughput throughput[SERVER_MAX_MODELS] = {0};
    double until = seconds_now() + server->options->drain_seconds;
    web_drain(server->web);
    if (is_busy(server))
        log_line("told to stop: requests have %d s to end; a second signal stops at once",
                 server->options->drain_seconds);
    while (is_busy(server) && seconds_now() < until) {
        if (wait_for_signal(signals, TICK_SECONDS / 10)) return false;
        tick(server, throughput);
    }
    web_end(server->web);
    until = seconds_now() + FINAL_SECONDS;
    while (is_busy(server) && seconds_now() < until)
        if (wait_for_signal(signals, TICK_SECONDS / 10)) return false;
    return true;
}

static void stop(struct server *server, const sigset_t *signals)
{
    supervisor_tell("STOPPING=1\nSTATUS=waiting for answers to end\n");
    bool calm = drain(server, signals);
    web_end(server->web);
    connections_cut_all(web_connections(server->web));
    log_line(calm ? "stopped" : "stopped at once");
}

static bool run(struct server *server, struct listener *listener, const sigset_t *signals,
                double start, ey_err *e)
{
    char url[128];
    banner_url(url, server->options, listener);
    if (!metrics_open(&server->metrics, server->options->n_models, e) ||
        !ey_grammar_cache_open(&server->grammars, MOST_GRAMMAR_BYTES, e) ||
        !keeper_open(&server->keeper, server->options, server->budget, e) ||
        !web_open(server, listener, e))
        return false;
    log_line("eyelet %s listening on %s", ey_version(), url);
    bool ok = serve(server, signals, url, start, e);
    if (ok)
        stop(server, signals);
    else {
        web_end(server->web);
        connections_cut_all(web_connections(server->web));
    }
    return ok;
}

bool server_run(const struct server_options *options, ey_err *e)
{
    struct server server = {
        .options = options, .started = (long long)time(NULL), .watched = supervisor_watches()};
    struct listener listener = {.fd = -1};
    sigset_t signals = stop_signals(), before;
    double start = seconds_now();
    signal(SIGPIPE, SIG_IGN);
    mallopt(M_MMAP_THRESHOLD, MAPPED_FROM); /* the threshold would grow by itself, and freed memory
                                               stay in threads' arenas */
    pthread_sigmask(SIG_BLOCK, &signals,
                    &before); /* threads inherit it: only wait_for_signal sees them */
    bool ok = listener_open(&listener, options->host, options->port, e) &&
              check(options, &listener, e);
    if (ok) server.budget = ey_budget_create(host_bytes(options));
    if (ok && !server.budget) ok = ey_fail_memory(e, "the budget of requests", 0);
    ok = ok && run(&server, &listener, &signals, start, e);
    if (server.keeper) keeper_shut(server.keeper);
    web_close(&server.web);
    keeper_close(&server.keeper);
    metrics_close(&server.metrics);
    ey_grammar_cache_close(&server.grammars);
    ey_budget_free(&server.budget);
    listener_close(&listener);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}
