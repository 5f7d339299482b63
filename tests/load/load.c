/* SPDX-License-Identifier: Apache-2.0 */
/* load SERVER [--short] [--no-memory] [--requests N] [--clients N] [--seed N] [--second DIR]: a
 * load test of the server. Starts `SERVER serve` with the demo model, asks each question alone for
 * the expected answers, then runs many concurrent clients in all dialects. Half of all requests are
 * malformed, a third of the others are left midway, and a tenth of the clients never read.
 * Afterwards nothing may be left over. --second adds a model; both are asked, and only one is
 * loaded at a time. --short has no limits on time and memory, --no-memory none on memory. Exit
 * status: 0 if all limits were kept, else 1. */
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "load/load_clients.h"

enum { MAX_REQUESTS = 1000000, MAX_CLIENTS = 240 };
enum { READY_SECONDS = 300, STOP_SECONDS = 300, CALM_SECONDS = 300 };
#define HEALTH_P99 0.05         /* seconds */
#define MEMORY_MARGIN (8 << 20) /* bytes that memory may grow */
#define UNREAD_SECONDS 40       /* the server drops a client that does not read after 30 s */

struct settings {
    const char *server, *second; /* second: NULL */
    size_t n_requests, n_clients;
    uint64_t seed;
    bool brief, no_memory;
};

/* The server's metrics. */
struct state {
    double running, waiting, blocks, budget, preemptions, vision_runs;
    struct child_memory memory;
};

struct load {
    const struct settings *settings;
    struct buf machine; /* description of the machine, before the run */
    struct child child;
    struct wire_target to;
    struct valid_requests valid;
    struct sample sample;
    struct state before, after;
    struct tally tally;
    size_t missed; /* number of broken limits */
};

/* ---- metrics ---- */

/* The sum over a metric's labels. */
static double metric(const char *text, const char *name)
{
    size_t n = strlen(name);
    double sum = NAN;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) != 0 || (line[n] != '{' && line[n] != ' ')) continue;
        const char *value = line[n] == '{' ? strstr(line, "} ") : line + n;
        if (value) sum = (isnan(sum) ? 0 : sum) + strtod(value + (line[n] == '{'), NULL);
    }
    return sum;
}

static bool read_state(const struct load *l, struct state *out)
{
    struct wire w = wire_make();
    struct buf request = buf_with_max(4096);
    chat_get(&request, &l->to, "/metrics");
    bool ok = wire_exchange(&w, &l->to, request.data, request.size, READY_SECONDS) &&
              w.reply.status == 200 && w.reply.body.size;
    const char *text = ok ? w.reply.body.data : "";
    *out = (struct state){metric(text, "vllm:num_requests_running"),
                          metric(text, "vllm:num_requests_waiting"),
                          metric(text, "eyelet_kv_blocks_used"),
                          metric(text, "eyelet_host_budget_used_bytes"),
                          metric(text, "vllm:num_preemptions_total"),
                          metric(text, "eyelet_vision_encoder_runs_total"),
                          child_memory(&l->child)};
    buf_free(&request);
    wire_free(&w);
    return ok;
}

static bool is_calm(const struct state *s)
{
    return s->running == 0 && s->waiting == 0 && s->blocks == 0 && s->budget == 0;
}

/* Waits until the server is idle. */
static bool calm_down(const struct load *l, struct state *out)
{
    double until = seconds_now() + CALM_SECONDS;
    struct timespec pause = {0, 100000000};
    while (read_state(l, out) && !is_calm(out) && seconds_now() < until)
        nanosleep(&pause, NULL);
    return is_calm(out);
}

/* ---- the run ---- */

static bool start(struct load *l, ey_err *e)
{
    static const char *const names[] = {"demo", "second"};
    const char *second = l->settings->second;
    const char *one[] = {
        l->settings->server, "serve", "models/demo",         "--port", "0", "--max-num-seqs", "16",
        "--kv-tokens",       "4096",  "--served-model-name", names[0], NULL};
    const char *two[] = {l->settings->server,
                         "serve",
                         "models/demo",
                         second,
                         "--port",
                         "0",
                         "--max-num-seqs",
                         "16",
                         "--kv-tokens",
                         "4096",
                         "--max-loaded-models",
                         "1",
                         "--served-model-name",
                         names[0],
                         names[1],
                         NULL};
    const char **argv = second ? two : one;
    return valid_requests_make(&l->valid, second ? names[0] : NULL, second ? names[1] : NULL, e) &&
           sample_read(&l->sample, e) && child_start(&l->child, argv, READY_SECONDS, e) &&
           wire_find(&l->to, l->child.url, e);
}

static bool run_crew(struct load *l, size_t n_requests, uint64_t seed, double unread_seconds,
                     struct tally *tally, ey_err *e)
{
    struct load_clients_options options = {.to = &l->to,
                                           .server = &l->child,
                                           .valid = &l->valid,
                                           .sample = &l->sample,
                                           .n_clients = l->settings->n_clients,
                                           .n_requests = n_requests,
                                           .seed = seed,
                                           .unread_seconds = unread_seconds};
    return load_clients_run(&options, tally) || ey_fail(e, EY_IO, "the server died");
}

/* Runs half as many requests first, so that caches and memory pools are filled before the run. */
static bool warm_up(struct load *l, ey_err *e)
{
    struct tally ignored = {.equal = 0};
    bool ok = run_crew(l, l->settings->n_requests / 2, l->settings->seed + 1, 0, &ignored, e);
    samples_free(&ignored.health);
    return ok &&
           (calm_down(l, &l->before) ||
            ey_fail(e, EY_IO,
                    "after the warm-up the server is not at rest: %.0f running, %.0f waiting, %.0f "
                    "KV blocks, "
                    "%.0f bytes of the budget",
                    l->before.running, l->before.waiting, l->before.blocks, l->before.budget));
}

static bool run(struct load *l, ey_err *e)
{
    double unread = l->settings->brief ? 0 : UNREAD_SECONDS;
    if (!start(l, e) || !valid_requests_ask_alone(&l->valid, &l->to, e) || !warm_up(l, e))
        return false;
    if (!run_crew(l, l->settings->n_requests, l->settings->seed, unread, &l->tally, e))
        return false;
    calm_down(l, &l->after);
    return true;
}

/* ---- the report ---- */

static void mark(struct load *l, bool reached, const char *what)
{
    printf("  %-6s %s\n", reached ? "ok" : "MISSED", what);
    l->missed += !reached;
}

static void print_figures(struct load *l)
{
    struct tally *t = &l->tally;
    const struct state *a = &l->before, *b = &l->after;
    printf("%zu requests by %zu clients in %.1f s, seed %llu\n", l->settings->n_requests,
           l->settings->n_clients, t->seconds, (unsigned long long)l->settings->seed);
    printf("good       equal %zu   unequal %zu   left %zu (wrong until then %zu)   never read %zu "
           "(not dropped %zu)   failed %zu\n",
           t->equal, t->unequal, t->left, t->left_wrong, t->unread, t->unread_kept, t->failed);
    printf("           in slow pieces %zu   503 and asked again %zu   connection closed between "
           "requests %zu\n",
           t->slow, t->waited, t->reopened);
    printf("malformed  refused %zu   answered all the same %zu   cut %zu   left by us %zu   "
           "unexpected %zu\n",
           t->refused, t->answered, t->cut, t->hung_up, t->unexpected);
    printf("/health    p50 %.1f ms   p99 %.1f ms   max %.1f ms   of %zu, failed %zu\n",
           1e3 * samples_percentile(&t->health, 0.5), 1e3 * samples_percentile(&t->health, 0.99),
           1e3 * samples_percentile(&t->health, 1), t->health.n, t->health_failed);
    printf("engine     %.0f preemptions, %.0f vision encoder runs meanwhile\n",
           b->preemptions - a->preemptions, b->vision_runs - a->vision_runs);
    printf("at rest    before -> after: running %.0f -> %.0f   waiting %.0f -> %.0f   KV blocks "
           "%.0f -> %.0f   budget %.0f -> %.0f bytes\n",
           a->running, b->running, a->waiting, b->waiting, a->blocks, b->blocks, a->budget,
           b->budget);
    printf(
        "memory     resident %.1f -> %.1f MiB (without files %.1f -> %.1f), at the most %.1f MiB\n",
        (double)a->memory.resident / (1 << 20), (double)b->memory.resident / (1 << 20),
        (double)a->memory.anonymous / (1 << 20), (double)b->memory.anonymous / (1 << 20),
        (double)b->memory.peak / (1 << 20));
}

static void check_marks(struct load *l, int status)
{
    struct tally *t = &l->tally;
    mark(l, status == 0, "the server did not crash and ended when told to");
    mark(l, t->equal > 0 && !t->unequal && !t->left_wrong,
         "every good answer is the one given alone");
    mark(l, !t->failed, "every good request was answered");
    mark(l, !t->unread_kept, "streams that nobody reads were dropped");
    mark(l, !t->unexpected, "nothing malformed was taken for something else");
    mark(l, is_calm(&l->after), "no request, KV block or byte of the budget is left over");
    mark(l, !t->health_failed, "/health always said that all is well");
    if (l->settings->brief) return;
    mark(l, samples_percentile(&t->health, 0.99) < HEALTH_P99, "p99 of /health is under 50 ms");
    if (!l->settings->no_memory)
        mark(l, l->after.memory.resident <= l->before.memory.resident + MEMORY_MARGIN,
             "memory is back, within 8 MiB");
}

static void finish(struct load *l, bool ran)
{
    if (ran) {
        printf("%s\n", l->machine.data);
        print_figures(l);
    }
    int status = child_stop(&l->child, STOP_SECONDS);
    if (ran) check_marks(l, status);
    if (!ran || l->missed) child_print_log(&l->child);
    buf_free(&l->machine);
    valid_requests_free(&l->valid);
    sample_free(&l->sample);
    samples_free(&l->tally.health);
}

/* ---- the command line ---- */

static bool read_number(const char *text, size_t least, size_t most, uint64_t *out)
{
    char *end;
    *out = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && !*end && *out >= least && *out <= most) return true;
    fprintf(stderr, "%s is not a number from %zu to %zu\n", text, least, most);
    return false;
}

static bool read_settings(struct settings *s, int argc, char **argv)
{
    static const struct option names[] = {{"short", no_argument, NULL, 's'},
                                          {"no-memory", no_argument, NULL, 'm'},
                                          {"requests", required_argument, NULL, 'r'},
                                          {"clients", required_argument, NULL, 'c'},
                                          {"seed", required_argument, NULL, 'S'},
                                          {"second", required_argument, NULL, '2'},
                                          {NULL, 0, NULL, 0}};
    uint64_t n;
    *s = (struct settings){.n_clients = 64, .seed = 1};
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (c == 's')
            s->brief = true;
        else if (c == 'm')
            s->no_memory = true;
        else if (c == '2')
            s->second = optarg;
        else if (c == 'r' && read_number(optarg, 10, MAX_REQUESTS, &n))
            s->n_requests = (size_t)n;
        else if (c == 'c' && read_number(optarg, 1, MAX_CLIENTS, &n))
            s->n_clients = (size_t)n;
        else if (c != 'S' || !read_number(optarg, 0, SIZE_MAX, &s->seed))
            return false;
    }
    if (!s->n_requests) s->n_requests = s->brief ? 200 : 2000;
    s->server = argv[optind];
    return s->server && optind + 1 == argc;
}

int main(int argc, char **argv)
{
    struct settings settings;
    ey_err e;
    if (!read_settings(&settings, argc, argv)) {
        fprintf(stderr,
                "use: %s [--short] [--no-memory] [--requests N] [--clients N] [--seed N] [--second "
                "DIR] SERVER\n",
                argv[0]);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    struct load load = {.settings = &settings, .machine = buf_with_max(4096)};
    machine_describe(&load.machine);
    bool ran = run(&load, &e);
    if (!ran) fprintf(stderr, "load: %s\n", e.text);
    finish(&load, ran);
    return ran && !load.missed ? 0 : 1;
}
