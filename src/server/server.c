/* SPDX-License-Identifier: Apache-2.0 */
/* The server's life: sockets, model manager, HTTP server, then waiting for signals. */
#include "server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "server/api/common/model_card.h"
#include "server/api/openai_responses/responses_store.h"
#include "server/startup_log.h"
#include "server/http/request_checks.h"
#include "server/descriptors.h"
#include "server/log.h"
#include "server/systemd_notify.h"
#include "server/http/http_server.h"

#define TICK_SECONDS 0.25
#define START_TICK_SECONDS 0.005 /* until the models are loaded */
#define STORM_SECONDS 1.0
#define FINAL_SECONDS 2.0 /* to send the last events of streams */
enum { MAX_GRAMMAR_CACHE_BYTES = 32 << 20 };
/* Freed images and bodies return to the system, whichever thread frees them. */
enum { MMAP_THRESHOLD_BYTES = 128 << 10 };
static const uint64_t max_host_budget = (uint64_t)1 << 30;

struct server_options server_defaults(void)
{
    return (struct server_options){.engine = ey_engine_defaults(),
                                   .host = "127.0.0.1",
                                   .port = 8000,
                                   .seed = -1,
                                   .max_images = SERVER_DEFAULT_IMAGES,
                                   .max_connections = SERVER_DEFAULT_CONNECTIONS,
                                   .drain_seconds = 30,
                                   .header_seconds = 10,
                                   .body_seconds = 60,
                                   .idle_seconds = 30,
                                   .stall_seconds = 30,
                                   .turn_seconds = 5};
}

/* ---- engines for routes ---- */

struct lease_waiter {
    struct server *server;
    struct exchange *x;
};

static bool waiter_is_gone(void *user)
{
    struct lease_waiter *b = user;
    return exchange_hung_up(b->x) || server_is_ending(b->server);
}

bool server_acquire_engine(struct server *server, size_t model, struct exchange *x,
                           struct lease *out, ey_err *e)
{
    struct lease_waiter waiter = {server, x};
    struct model_status before = model_manager_status(server->model_manager, model);
    *out = (struct lease){.model = model};
    out->engine = model_manager_acquire(server->model_manager, model, waiter_is_gone, &waiter,
                                        &out->waited, e);
    if (!out->engine && server_is_ending(server))
        return ey_fail(e, EY_BUSY, "the server is shutting down");
    const bool at_start = before.state == MODEL_LOADING && !before.loads;
    if (!out->engine || before.state == MODEL_READY || at_start) return out->engine != NULL;
    char seconds[32];
    snprintf(seconds, sizeof(seconds), "%.3f",
             model_manager_status(server->model_manager, model).load_seconds);
    exchange_add_header(x, "X-Eyelet-Reload-Seconds", seconds);
    return true;
}

void server_release_engine(struct server *server, struct lease *lease)
{
    if (lease->engine) model_manager_release(server->model_manager, lease->model);
    lease->engine = NULL;
}

/* ---- signals ---- */

static bool is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* Returns SIGTERM, plus SIGINT and SIGHUP unless the parent process has set them to be ignored, as
 * shells do with & and nohup. */
static sigset_t awaited_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    if (!is_ignored(SIGINT)) sigaddset(&set, SIGINT);
    if (!is_ignored(SIGHUP)) sigaddset(&set, SIGHUP);
    return set;
}

/* Returns the signal that arrives within `seconds`, or 0. */
static int wait_for_signal(const sigset_t *set, double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds,
                         .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
    int number = sigtimedwait(set, NULL, &t);
    return number > 0 ? number : 0;
}

static bool has_terminal(void)
{
    int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

/* Rereads key and TLS files and reopens the log. If a file cannot be used, its old contents stay in
 * use. */
static void reload(struct server *server)
{
    ey_err e;
    bool log = log_reopen(), ok = http_server_reload(server->http_server, &e);
    log_line("SIGHUP: %s%s", ok ? "keys and certificate were read again" : e.text,
             !ok   ? "; the old one stays in use"
             : log ? ", the log was opened again"
                   : "");
}

/* Waits for a signal; returns whether it ends the server. SIGHUP ends it only if the server was
 * started from a terminal that has closed. */
static bool is_told_to_stop(struct server *server, const sigset_t *signals, double seconds)
{
    int number = wait_for_signal(signals, seconds);
    if (number != SIGHUP) return number != 0;
    if (server->had_terminal && !has_terminal()) return true;
    reload(server);
    return false;
}

/* Waits for a signal; returns whether draining is to be cut short: by SIGINT, or by another SIGTERM
 * at least a second after the last. */
static bool is_told_again(const sigset_t *signals, double seconds, double *last)
{
    int number = wait_for_signal(signals, seconds);
    if (number == SIGINT) return true;
    if (number != SIGTERM) return false;
    double before = *last;
    *last = seconds_now();
    return *last - before >= STORM_SECONDS;
}

/* ---- running ---- */

static bool check_network_access(const struct server_options *o, const struct server_socket *l,
                                 ey_err *e)
{
    if (l->loopback || o->keys.n || o->insecure) return true;
    return ey_fail(e, EY_BAD_REQUEST,
                   "--host %s lets others on the network use this server; give it an --api-key (or "
                   "VLLM_API_KEY), or set "
                   "--insecure if everybody may use it",
                   o->host);
}

static bool check_ollama_access(const struct server_options *o, const struct server_socket *l,
                                ey_err *e)
{
    if (l->loopback || o->keys.n || o->ollama_insecure || o->insecure) return true;
    return ey_fail(e, EY_BAD_REQUEST,
                   "--ollama %s:%d lets others on the network use this server; give it an "
                   "--api-key, or set --ollama-insecure if everybody may use it",
                   o->ollama_host, o->ollama_port);
}

static bool open_ollama_socket(const struct server_options *o, struct server_socket *l, ey_err *e)
{
    return !o->ollama_host ||
           (server_socket_open(l, "--ollama", o->ollama_host, o->ollama_port, e) &&
            check_ollama_access(o, l, e));
}

static uint64_t host_budget_bytes(const struct server_options *o)
{
    uint64_t quarter = memory_available() / 4;
    if (o->host_bytes) return o->host_bytes;
    return quarter < max_host_budget ? quarter : max_host_budget;
}

static bool any_model_stuck(struct server *server)
{
    bool stuck = false;
    for (size_t i = 0; i < model_manager_count(server->model_manager); i++)
        stuck |= model_manager_is_stuck(server->model_manager, i);
    return stuck;
}

static void resume_accepting(struct server *server)
{
    ey_err e;
    bool resumed = http_server_resume(server->http_server, &e);
    if (!resumed && !server->cannot_resume)
        log_line("new connections have to wait longer: %s", e.text);
    server->cannot_resume = !resumed;
}

/* Stops accepting while no descriptor is free, and logs that once. */
static void watch_descriptors(struct server *server)
{
    enum { TO_GO_ON = 8 };
    if (http_server_is_paused(server->http_server)) {
        if (descriptors_are_free(TO_GO_ON)) resume_accepting(server);
    } else if (!descriptors_are_free(1)) {
        http_server_pause(server->http_server);
        if (!server->out_of_descriptors)
            log_line("no descriptor is left (ulimit -n): new connections wait");
        server->out_of_descriptors = true;
    }
}

static void server_tick(struct server *server, struct throughput_log *throughput)
{
    connections_sweep(http_server_connections(server->http_server),
                      ey_budget_is_awaited(server->budget));
    watch_descriptors(server);
    for (size_t i = 0; i < model_manager_count(server->model_manager) && !server->options->quiet;
         i++)
        log_throughput(&throughput[i], server->model_manager, i);
    if (server->watchdog && !any_model_stuck(server)) systemd_notify("WATCHDOG=1\n");
}

/* Whether all models that are loaded at the start are ready. Sets *failed if one could not be
 * loaded. */
static bool start_is_done(struct server *server, bool *failed, ey_err *e)
{
    bool started = true;
    for (size_t i = 0; i < model_manager_count(server->model_manager); i++) {
        struct model_status k = model_manager_status(server->model_manager, i);
        if (k.state == MODEL_FAILED) return *e = k.error, *failed = true, false;
        started &= k.state != MODEL_LOADING || k.loads;
    }
    return started;
}

/* Serves until the first signal. Fails if a model could not be loaded. */
static bool serve_until_signal(struct server *server, const sigset_t *signals, const char *url,
                               double start, ey_err *e)
{
    struct throughput_log throughput[SERVER_MAX_MODELS] = {0};
    bool announced = false, failed = false;
    while (!is_told_to_stop(server, signals, announced ? TICK_SECONDS : START_TICK_SECONDS)) {
        server_tick(server, throughput);
        if (announced || !start_is_done(server, &failed, e)) {
            if (failed) return false;
            continue;
        }
        announced = true;
        if (!server->options->quiet) log_loaded_models(server);
        log_line("eyelet ready on %s in %.1f s", url, seconds_now() - start);
        systemd_notify("READY=1\nSTATUS=%.200s on %s\n", server_model_name(server, 0), url);
    }
    return true;
}

static bool has_busy_connections(struct server *server)
{
    return connections_count(http_server_connections(server->http_server)).busy > 0;
}

/* Lets running requests finish. Returns false if a second signal came. */
static bool drain(struct server *server, const sigset_t *signals)
{
    struct throughput_log throughput[SERVER_MAX_MODELS] = {0};
    double last = seconds_now(), until = last + server->options->drain_seconds;
    http_server_drain(server->http_server);
    if (has_busy_connections(server))
        log_line("stopping: requests have %d s to finish; SIGINT (Ctrl-C), or SIGTERM after 1 s, "
                 "stops the server at once",
                 server->options->drain_seconds);
    while (has_busy_connections(server) && seconds_now() < until) {
        if (is_told_again(signals, TICK_SECONDS / 10, &last)) return false;
        server_tick(server, throughput);
    }
    http_server_end_streams(server->http_server);
    until = seconds_now() + FINAL_SECONDS;
    while (has_busy_connections(server) && seconds_now() < until)
        if (is_told_again(signals, TICK_SECONDS / 10, &last)) return false;
    return true;
}

static void drain_and_stop(struct server *server, const sigset_t *signals)
{
    systemd_notify("STOPPING=1\nSTATUS=waiting for answers to end\n");
    bool all_finished = drain(server, signals);
    http_server_end_streams(server->http_server);
    connections_cut_all(http_server_connections(server->http_server));
    log_line(all_finished ? "stopped" : "stopped at once");
}

static bool run_server(struct server *server, struct server_socket *listener,
                       struct server_socket *ollama, const sigset_t *signals, double start,
                       ey_err *e)
{
    char url[128], ollama_url[128];
    bool second = ollama->fd >= 0;
    startup_url(url, server->options, listener);
    if (second) startup_url(ollama_url, server->options, ollama);
    if (!metrics_open(&server->metrics, server->options->n_models, e) ||
        !ey_grammar_cache_open(&server->grammars, MAX_GRAMMAR_CACHE_BYTES, e) ||
        !model_cards_open(&server->cards, e) ||
        !responses_store_open(&server->responses, server->options->responses_bytes, e) ||
        !model_manager_open(&server->model_manager, server->options, server->budget, e) ||
        !http_server_open(server, listener, ollama, e))
        return false;
    log_line("eyelet %s listening on %s", ey_version(), url);
    log_network_url(server->options, listener);
    if (second) log_line("Ollama's clients find it at %s", ollama_url);
    bool ok = serve_until_signal(server, signals, url, start, e);
    if (ok)
        drain_and_stop(server, signals);
    else {
        http_server_end_streams(server->http_server);
        connections_cut_all(http_server_connections(server->http_server));
    }
    return ok;
}

bool server_run(const struct server_options *options, ey_err *e)
{
    struct server server = {.options = options,
                            .started = (long long)time(NULL),
                            .had_terminal = has_terminal(),
                            .watchdog = systemd_watchdog_enabled()};
    struct server_socket listener = {.fd = -1}, ollama = {.fd = -1};
    sigset_t signals = awaited_signals(), before;
    double start = seconds_now();
    log_start();
    signal(SIGPIPE, SIG_IGN);
    /* A fixed threshold: glibc would raise it, and arenas of threads keep freed memory. */
    mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES);
    /* Threads inherit the mask, so only wait_for_signal() receives signals. */
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    bool ok = server_socket_open(&listener, "--host", options->host, options->port, e) &&
              check_network_access(options, &listener, e) &&
              open_ollama_socket(options, &ollama, e);
    if (ok) server.budget = ey_budget_create(host_budget_bytes(options));
    if (ok && !server.budget) ok = ey_fail_memory(e, "the budget of requests", 0);
    ok = ok && run_server(&server, &listener, &ollama, &signals, start, e);
    if (server.model_manager) model_manager_shutdown(server.model_manager);
    http_server_close(&server.http_server);
    model_manager_close(&server.model_manager);
    metrics_close(&server.metrics);
    ey_grammar_cache_close(&server.grammars);
    model_cards_close(&server.cards);
    responses_store_close(&server.responses);
    ey_budget_free(&server.budget);
    server_socket_close(&listener);
    server_socket_close(&ollama);
    log_stop();
    if (!ok) pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}
