/* SPDX-License-Identifier: Apache-2.0 */
/* The wall and processor time that each dialect adds to Chat's: for a request, and for a token. */
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "client/dialects.h"
#include "serve.h"

enum { REQUESTS_PER_TURN = 8, MAX_COST_REQUEST = 4096, N_SHAPES = 4 };

/* Whole or streamed, short or long. */
static const struct shape {
    bool stream, is_long;
} shapes[N_SHAPES] = {{false, false}, {true, false}, {false, true}, {true, true}};

/* Qwen's template as text, so that dialects that apply no template have the same prompt. */
static const char plain[] = "Say hello.";
static const char templated[] = "<|im_start|>user\nSay hello.<|im_end|>\n<|im_start|>assistant\n";

/* Seconds for a request: wall time of the client, processor time of the server. */
struct cost {
    double wall, cpu; /* cpu: NAN if the server was not started by us */
};

/* One round, by dialect and shape. */
struct round {
    struct cost of[N_DIALECTS][N_SHAPES];
};

/* Differences to Chat in all rounds, in seconds. */
struct difference {
    struct samples wall, cpu;
};

struct comparison {
    struct serve *bench;
    struct wire wire;
    struct buf request[N_DIALECTS][N_SHAPES];
    struct chat_answer answer;
    int64_t prompt_tokens[N_DIALECTS];
    struct difference request_adds[N_DIALECTS][2]; /* whole, streamed */
    struct difference token_adds[N_DIALECTS][2];
};

static double processor_seconds(pid_t pid)
{
    clockid_t clock;
    struct timespec t;
    if (!pid || clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t)) return NAN;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int tokens_of(const struct serve *b, const struct shape *s)
{
    return s->is_long ? b->settings->tokens : 1;
}

static bool write_request(struct comparison *c, enum dialect d, size_t shape)
{
    const char *model = c->bench->settings->name ? c->bench->settings->name : "bench";
    bool has_template = d != DIALECT_COMPLETIONS && d != DIALECT_LLAMACPP;
    struct question q = {.text = has_template ? plain : templated,
                         .max_tokens = tokens_of(c->bench, &shapes[shape])};
    struct buf body = buf_with_max(MAX_COST_REQUEST);
    dialect_begin_body(&body, d, &q);
    dialect_end_body(&body, d, model, shapes[shape].stream);
    bool ok = !body.failed;
    chat_post(&c->request[d][shape], &c->bench->to, dialect_path(d), body.data, body.size);
    buf_free(&body);
    return ok;
}

/* The reply is parsed only when it is complete, so that the client's own work is not measured. */
static bool ask(struct comparison *c, const struct buf *request, ey_err *e)
{
    struct wire *w = &c->wire;
    if (!wire_is_reusable(w) && !wire_open(w, &c->bench->to, false))
        return ey_fail(e, EY_IO, "no connection to %s", c->bench->to.host);
    wire_send(w, request->data, request->size);
    wire_step(w, POLLOUT);
    while (!wire_is_over(w)) {
        struct pollfd one = {w->fd, wire_events(w), 0};
        if (poll(&one, 1, (int)(1e3 * c->bench->settings->patience)) <= 0) break;
        wire_step(w, one.revents);
    }
    if (w->reply.state == REPLY_DONE && w->reply.status == 200) return true;
    return ey_fail(e, EY_IO, "no answer: status %d: %.300s", w->reply.status,
                   w->reply.body.size ? w->reply.body.data : "");
}

static bool check_answer(struct comparison *c, enum dialect d, const struct shape *s, ey_err *e)
{
    struct chat_answer *a = &c->answer;
    const struct buf *body = &c->wire.reply.body;
    chat_answer_clear(a);
    if (s->stream)
        dialect_read_stream(d, a, body);
    else
        dialect_read_whole(d, a, body);
    c->prompt_tokens[d] = a->prompt_tokens;
    if (a->done && !a->failed && a->completion_tokens == tokens_of(c->bench, s)) return true;
    return ey_fail(e, EY_IO, "%s: %lld tokens instead of %d: use a model that does not stop early",
                   dialect_name(d), (long long)a->completion_tokens, tokens_of(c->bench, s));
}

static bool measure_turn(struct comparison *c, enum dialect d, size_t shape, struct cost *out,
                         ey_err *e)
{
    double cpu = processor_seconds(c->bench->server), wall = seconds_now();
    for (int i = 0; i < REQUESTS_PER_TURN; i++)
        if (!ask(c, &c->request[d][shape], e)) return false;
    out->wall = (seconds_now() - wall) / REQUESTS_PER_TURN;
    out->cpu = (processor_seconds(c->bench->server) - cpu) / REQUESTS_PER_TURN;
    return check_answer(c, d, &shapes[shape], e);
}

/* Each round starts with another dialect, so that the order varies. */
static bool measure_round(struct comparison *c, int n, struct round *out, ey_err *e)
{
    for (size_t shape = 0; shape < N_SHAPES; shape++)
        for (int i = 0; i < N_DIALECTS; i++) {
            enum dialect d = (enum dialect)((n + i) % N_DIALECTS);
            if (!measure_turn(c, d, shape, &out->of[d][shape], e)) return false;
        }
    return true;
}

static void add_difference(struct difference *to, struct cost a, struct cost b, double share)
{
    samples_add(&to->wall, share * (a.wall - b.wall));
    if (!isnan(a.cpu)) samples_add(&to->cpu, share * (a.cpu - b.cpu));
}

static struct cost without_request(const struct round *r, enum dialect d, size_t streamed)
{
    const struct cost *of = r->of[d];
    return (struct cost){of[2 + streamed].wall - of[streamed].wall,
                         of[2 + streamed].cpu - of[streamed].cpu};
}

static void add_round(struct comparison *c, const struct round *r)
{
    double per_token = 1.0 / (c->bench->settings->tokens - 1);
    for (enum dialect d = 0; d < N_DIALECTS; d++)
        for (size_t streamed = 0; streamed < 2; streamed++) {
            add_difference(&c->request_adds[d][streamed], r->of[d][streamed],
                           r->of[DIALECT_CHAT][streamed], 1);
            add_difference(&c->token_adds[d][streamed], without_request(r, d, streamed),
                           without_request(r, DIALECT_CHAT, streamed), per_token);
        }
}

static void print_difference(struct difference *f, double unit)
{
    printf("  %8.3f", unit * samples_percentile(&f->wall, 0.5));
    if (f->cpu.n)
        printf(" (%7.3f)", unit * samples_percentile(&f->cpu, 0.5));
    else
        printf("          ");
}

static void print_comparison(struct comparison *c, int rounds)
{
    printf("\nWhat a dialect adds to Chat: medians of %d rounds in turns, %d requests each; in "
           "brackets the server's processor time\n"
           "%-16s %7s  %20s%20s%20s%20s\n",
           rounds, REQUESTS_PER_TURN, "", "prompt", "ms a request", "ms, streamed", "us a token",
           "us, streamed");
    for (enum dialect d = 0; d < N_DIALECTS; d++) {
        printf("%-16s %7lld", dialect_name(d), (long long)c->prompt_tokens[d]);
        for (size_t streamed = 0; streamed < 2; streamed++)
            print_difference(&c->request_adds[d][streamed], 1e3);
        for (size_t streamed = 0; streamed < 2; streamed++)
            print_difference(&c->token_adds[d][streamed], 1e6);
        printf("\n");
    }
    fflush(stdout);
}

static void free_comparison(struct comparison *c)
{
    for (enum dialect d = 0; d < N_DIALECTS; d++) {
        for (size_t i = 0; i < N_SHAPES; i++)
            buf_free(&c->request[d][i]);
        for (size_t i = 0; i < 2; i++) {
            samples_free(&c->request_adds[d][i].wall);
            samples_free(&c->request_adds[d][i].cpu);
            samples_free(&c->token_adds[d][i].wall);
            samples_free(&c->token_adds[d][i].cpu);
        }
    }
    chat_answer_free(&c->answer);
    wire_free(&c->wire);
}

bool measure_dialects(struct serve *b, ey_err *e)
{
    struct comparison c = {.bench = b, .wire = wire_make(), .answer = chat_answer_make()};
    struct round round;
    bool ok = true;
    for (enum dialect d = 0; d < N_DIALECTS; d++)
        for (size_t i = 0; i < N_SHAPES; i++) {
            c.request[d][i] = buf_with_max(MAX_COST_REQUEST);
            ok = ok && write_request(&c, d, i);
        }
    if (!ok) ey_fail_memory(e, "requests", MAX_COST_REQUEST);
    ok = ok && measure_round(&c, 0, &round, e); /* warm-up */
    for (int n = 0; ok && n < b->settings->dialect_rounds; n++) {
        ok = measure_round(&c, n, &round, e);
        if (ok) add_round(&c, &round);
    }
    if (ok) print_comparison(&c, b->settings->dialect_rounds);
    free_comparison(&c);
    return ok;
}
