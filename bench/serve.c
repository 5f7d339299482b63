/* SPDX-License-Identifier: Apache-2.0 */
/* bench_serve measures a server from its clients' side. bench/README.md explains its use and its
 * figures. */
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/child.h"
#include "serve.h"

enum {
    READY_SECONDS = 300,
    STOP_SECONDS = 30,
    MAX_SIDE = 8192,
    MAX_ARGUMENTS = 128,
    MOST = 1000000
};

static const char usage[] =
    "usage: bench_serve [OPTION...] [-- OPTION-OF-THE-SERVER...]\n"
    "  --server PROGRAM       the eyelet to start (default: build/eyelet)\n"
    "  --model DIR            its checkpoint (default: models/demo)\n"
    "  --base-url URL         measure a running server, such as http://127.0.0.1:8000\n"
    "  --model-name NAME      the model that requests name\n"
    "  --streams N[,N...]     numbers of concurrent streams (default: 1,8,32)\n"
    "  --tokens N             tokens of each answer (default: 64)\n"
    "  --answers N            questions of each client in a round, asked in sequence (default: 1)\n"
    "  --rounds N             rounds of each measurement (default: 5; 0: measure neither streams\n"
    "                         nor delays)\n"
    "  --image WxH            size of the streams' images (default: 448x448; 0x0: text alone)\n"
    "  --big-image WxH        size of the image that may delay a stream (default: 1024x768)\n"
    "  --stall-tokens N       tokens of the stream that may be delayed (default: 2000; 0: do not\n"
    "                         measure)\n"
    "  --cost N               requests of one token (default: 400; 0: do not measure)\n"
    "  --dialects N           rounds that compare the dialects (default: 0; 20 is a good number)\n"
    "  --patience SECONDS     the longest wait for anything (default: 600)\n";

static bool fail_value(const char *text)
{
    fprintf(stderr, "bench_serve: %s cannot be used\n%s", text, usage);
    return false;
}

static bool read_int(const char *text, int least, int most, int *out)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < least || n > most) return fail_value(text);
    *out = (int)n;
    return true;
}

static bool read_counts(const char *text, struct serve_settings *s)
{
    const char *at = text;
    s->n_counts = 0;
    do {
        char *end;
        long n = strtol(at, &end, 10);
        if (end == at || n < 1 || n > SERVE_MAX_STREAMS || s->n_counts == SERVE_MAX_COUNTS)
            return fail_value(text);
        s->streams[s->n_counts++] = (int)n;
        at = end;
    } while (*at++ == ',');
    return !at[-1] || fail_value(text);
}

static bool read_size(const char *text, int *width, int *height)
{
    char rest;
    if (sscanf(text, "%dx%d%c", width, height, &rest) == 2 && *width >= 0 && *height >= 0 &&
        *width <= MAX_SIDE && *height <= MAX_SIDE && !*width == !*height)
        return true;
    return fail_value(text);
}

static bool read_option(struct serve_settings *s, int option)
{
    int seconds;
    switch (option) {
    case 'p': return s->server = optarg, true;
    case 'm': return s->model = optarg, true;
    case 'u': return s->url = optarg, true;
    case 'n': return s->name = optarg, true;
    case 's': return read_counts(optarg, s);
    case 't': return read_int(optarg, 2, MOST, &s->tokens);
    case 'a': return read_int(optarg, 1, MOST, &s->answers);
    case 'r': return read_int(optarg, 0, MOST, &s->rounds);
    case 'i': return read_size(optarg, &s->width, &s->height);
    case 'b':
        return read_size(optarg, &s->big_width, &s->big_height) &&
               (s->big_width || fail_value(optarg));
    case 'S': return read_int(optarg, 0, MOST, &s->stall_tokens);
    case 'c': return read_int(optarg, 0, MOST, &s->cost_requests);
    case 'd': return read_int(optarg, 0, MOST, &s->dialect_rounds);
    case 'P':
        if (!read_int(optarg, 1, MOST, &seconds)) return false;
        s->patience = seconds;
        return true;
    default: return fputs(usage, stderr), false;
    }
}

static bool read_settings(struct serve_settings *s, int argc, char **argv)
{
    static const struct option names[] = {{"server", required_argument, NULL, 'p'},
                                          {"model", required_argument, NULL, 'm'},
                                          {"base-url", required_argument, NULL, 'u'},
                                          {"model-name", required_argument, NULL, 'n'},
                                          {"streams", required_argument, NULL, 's'},
                                          {"tokens", required_argument, NULL, 't'},
                                          {"answers", required_argument, NULL, 'a'},
                                          {"rounds", required_argument, NULL, 'r'},
                                          {"picture", required_argument, NULL, 'i'},
                                          {"big-picture", required_argument, NULL, 'b'},
                                          {"image", required_argument, NULL, 'i'},
                                          {"big-image", required_argument, NULL, 'b'},
                                          {"stall-tokens", required_argument, NULL, 'S'},
                                          {"cost", required_argument, NULL, 'c'},
                                          {"dialects", required_argument, NULL, 'd'},
                                          {"patience", required_argument, NULL, 'P'},
                                          {NULL, 0, NULL, 0}};
    *s = (struct serve_settings){.server = "build/eyelet",
                                 .model = "models/demo",
                                 .streams = {1, 8, 32},
                                 .n_counts = 3,
                                 .rounds = 5,
                                 .answers = 1,
                                 .tokens = 64,
                                 .width = 448,
                                 .height = 448,
                                 .big_width = 1024,
                                 .big_height = 768,
                                 .stall_tokens = 2000,
                                 .cost_requests = 400,
                                 .patience = 600};
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;)
        if (!read_option(s, c)) return false;
    s->more = argv + optind;
    s->n_more = argc - optind;
    return s->n_more < MAX_ARGUMENTS - 16 || fail_value(argv[argc - 1]);
}

/* Runs as many requests as the largest --streams; options after -- come last and override. */
static bool start_server(const struct serve_settings *s, struct child *child, ey_err *e)
{
    char seqs[16];
    const char *argv[MAX_ARGUMENTS] = {s->server,
                                       "serve",
                                       "--model",
                                       s->model,
                                       "--port",
                                       "0",
                                       "--quiet",
                                       "--max-num-seqs",
                                       seqs,
                                       "--kv-tokens",
                                       "16384",
                                       "--served-model-name",
                                       s->name ? s->name : "bench"};
    int most = 2, n = 13;
    for (int i = 0; i < s->n_counts; i++)
        most = s->streams[i] > most ? s->streams[i] : most;
    snprintf(seqs, sizeof(seqs), "%d", most);
    for (int i = 0; i < s->n_more; i++)
        argv[n++] = s->more[i];
    return child_start(child, argv, READY_SECONDS, e);
}

static void print_head(int argc, char **argv)
{
    struct buf machine = buf_with_max(4096);
    machine_describe(&machine);
    printf("%s\n", machine.data ? machine.data : "");
    for (int i = 0; i < argc; i++)
        printf("%s%s", i ? " " : "", argv[i]);
    printf("\n");
    fflush(stdout);
    buf_free(&machine);
}

static bool run(struct serve *b, struct child *child, ey_err *e)
{
    const struct serve_settings *s = b->settings;
    if (!s->url && !start_server(s, child, e)) return false;
    b->server = child->pid;
    return wire_find(&b->to, s->url ? s->url : child->url, e) &&
           (!s->rounds || measure_streams(b, e)) &&
           (!s->rounds || !s->stall_tokens || measure_stall(b, e)) &&
           (!s->cost_requests || measure_cost(b, e)) &&
           (!s->dialect_rounds || measure_dialects(b, e));
}

int main(int argc, char **argv)
{
    struct serve_settings settings;
    struct serve bench = {.settings = &settings};
    struct child child = {.pid = 0};
    ey_err e;
    if (!read_settings(&settings, argc, argv)) return 2;
    signal(SIGPIPE, SIG_IGN);
    print_head(argc, argv);
    bool ok = run(&bench, &child, &e);
    if (!ok) fprintf(stderr, "bench_serve: %s\n", e.text);
    if (!ok && child.pid) child_print_log(&child);
    child_stop(&child, STOP_SECONDS);
    return ok ? 0 : 1;
}
