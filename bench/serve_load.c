/* SPDX-License-Identifier: Apache-2.0 */
/* Concurrent streams, and an image during a stream. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "serve.h"

enum { WARM_TEXTS = 20 }; /* chunks after which a stream has reached its speed */

/* ---- concurrent streams ---- */

struct row {
    struct samples first, gaps;     /* of all streams of all rounds */
    struct samples round_first;     /* median of each round */
    struct samples tokens_a_second; /* of each round */
    struct samples answers_a_second;
};

/* Clients that ask one question after the other: [n, each] streams. */
struct clients {
    struct stream *stream, **current; /* current: [n] the running one of each client */
    int n, each;
};

static struct clients clients_open(int n, int each)
{
    struct clients c = {calloc((size_t)n * (size_t)each, sizeof(*c.stream)),
                        calloc((size_t)n, sizeof(*c.current)), n, each};
    if (!c.stream || !c.current) abort();
    for (int i = 0; i < n * each; i++)
        c.stream[i] = stream_make();
    for (int i = 0; i < n; i++)
        c.current[i] = &c.stream[i * each];
    return c;
}

static void clients_close(struct clients *c)
{
    for (int i = 0; i < c->n * c->each; i++)
        stream_free(&c->stream[i]);
    free(c->stream);
    free(c->current);
}

/* Starts the next question of clients whose answer is complete. *over: no client has another. */
static bool clients_go_on(struct serve *b, const struct clients *c, bool *over, ey_err *e)
{
    *over = true;
    for (int i = 0; i < c->n; i++) {
        const bool is_over = stream_is_over(c->current[i]),
                   is_last = c->current[i] == &c->stream[(i + 1) * c->each - 1];
        *over = *over && is_over && is_last;
        if (is_over && !is_last &&
            (!stream_check(c->current[i], e) || !stream_send(b, ++c->current[i], e)))
            return false;
    }
    return true;
}

static bool run_clients(struct serve *b, const struct clients *c, double start, ey_err *e)
{
    bool ok = true, over = false;
    for (int i = 0; ok && i < c->n; i++)
        ok = stream_send(b, c->current[i], e);
    while (ok && !over) {
        streams_wait(c->current, (size_t)c->n);
        ok = clients_go_on(b, c, &over, e);
        if (ok && !over && seconds_now() - start > b->settings->patience)
            ok = ey_fail(e, EY_IO, "%d streams were not over after %.0f s", c->n,
                         b->settings->patience);
    }
    return ok;
}

static bool run_round(struct serve *b, int n, bool with_image, struct row *row, ey_err *e)
{
    const struct serve_settings *o = b->settings;
    struct clients clients = clients_open(n, o->answers);
    struct samples first = {.n = 0};
    const int answers = n * o->answers;
    double tokens = 0;
    bool ok = true;
    /* generating images takes this process longer than some servers need for an answer */
    for (int i = 0; ok && i < answers; i++)
        ok = stream_write(b, &clients.stream[i], with_image ? o->width : 0, o->height, o->tokens,
                          e);
    double start = seconds_now(), end = start;
    ok = ok && run_clients(b, &clients, start, e);
    for (int i = 0; ok && i < answers; i++) {
        const struct stream *s = &clients.stream[i];
        ok = stream_check(s, e);
        samples_add(&first, s->first - s->sent);
        samples_add_all(&row->gaps, &s->gaps);
        tokens += (double)stream_tokens(s);
        if (s->last > end) end = s->last;
    }
    if (ok) {
        samples_add_all(&row->first, &first);
        samples_add(&row->round_first, samples_percentile(&first, 0.5));
        samples_add(&row->tokens_a_second, tokens / (end - start));
        samples_add(&row->answers_a_second, answers / (end - start));
    }
    clients_close(&clients);
    samples_free(&first);
    return ok;
}

static void print_row(int n, bool with_image, struct row *r)
{
    printf(
        "%7d  %-7s  %8.1f %8.1f  (%.1f to %.1f)  %7.2f %8.2f %8.2f  %8.1f  (%.1f to %.1f)  "
        "%7.2f (%.2f to %.2f)\n",
        n, with_image ? "image" : "text", 1e3 * samples_percentile(&r->first, 0.5),
        1e3 * samples_percentile(&r->first, 0.99), 1e3 * samples_percentile(&r->round_first, 0),
        1e3 * samples_percentile(&r->round_first, 1), 1e3 * samples_percentile(&r->gaps, 0.5),
        1e3 * samples_percentile(&r->gaps, 0.99), 1e3 * samples_percentile(&r->gaps, 1),
        samples_percentile(&r->tokens_a_second, 0.5), samples_percentile(&r->tokens_a_second, 0),
        samples_percentile(&r->tokens_a_second, 1), samples_percentile(&r->answers_a_second, 0.5),
        samples_percentile(&r->answers_a_second, 0), samples_percentile(&r->answers_a_second, 1));
    fflush(stdout);
}

static bool measure_row(struct serve *b, int n, bool with_image, ey_err *e)
{
    struct row row = {.first = {.n = 0}};
    bool ok = true;
    for (int i = 0; ok && i < b->settings->rounds; i++)
        ok = run_round(b, n, with_image, &row, e);
    if (ok) print_row(n, with_image, &row);
    samples_free(&row.first);
    samples_free(&row.gaps);
    samples_free(&row.round_first);
    samples_free(&row.tokens_a_second);
    samples_free(&row.answers_a_second);
    return ok;
}

bool measure_streams(struct serve *b, ey_err *e)
{
    const struct serve_settings *o = b->settings;
    bool ok = true;
    printf("\n%d tokens a stream, images %dx%d, %d rounds; milliseconds, medians of rounds in "
           "brackets: least to most\n",
           o->tokens, o->width, o->height, o->rounds);
    printf("streams           first token: p50, p99            token to token: p50, p99, max    "
           "tokens/s                     answers/s\n");
    for (int i = 0; ok && i < o->n_counts; i++)
        ok = measure_row(b, o->streams[i], false, e) &&
             (!o->width || measure_row(b, o->streams[i], true, e));
    return ok;
}

/* ---- an image during a stream ---- */

struct stall {
    struct samples alone, with_image,
        first; /* longest gap of a round without and with the image; the image's first token */
    struct samples usual; /* all gaps without the image */
};

/* Waits until the stream has reached its speed or, with an image, for its answer; the stream must
 * not end before. */
static bool wait_for(struct serve *b, struct stream *text, struct stream *with_image, ey_err *e)
{
    struct stream *all[] = {text, with_image};
    double start = seconds_now();
    for (;;) {
        bool enough = with_image ? stream_is_over(with_image) : text->gaps.n >= WARM_TEXTS;
        if (enough) return true;
        if (stream_is_over(text)) {
            if (!stream_check(text, e)) return false;
            return ey_fail(
                e, EY_IO,
                "the stream ended before the image's answer; give it more with --stall-tokens");
        }
        if (seconds_now() - start > b->settings->patience)
            return ey_fail(e, EY_IO, "nothing after %.0f s", b->settings->patience);
        streams_wait(all, with_image ? 2 : 1);
    }
}

static bool run_stall(struct serve *b, struct stall *out, ey_err *e)
{
    const struct serve_settings *o = b->settings;
    struct stream text = stream_make(), with_image = stream_make();
    bool ok = stream_write(b, &with_image, o->big_width, o->big_height, 4, e) &&
              stream_start(b, &text, 0, 0, o->stall_tokens, e) && wait_for(b, &text, NULL, e);
    if (ok) {
        samples_add(&out->alone, samples_percentile(&text.gaps, 1));
        samples_add_all(&out->usual, &text.gaps);
        samples_free(&text.gaps);
        ok = stream_send(b, &with_image, e) && wait_for(b, &text, &with_image, e) &&
             stream_check(&with_image, e);
    }
    if (ok) {
        double now = seconds_now();
        samples_add(&text.gaps, now - text.last); /* the current gap may not have ended */
        samples_add(&out->with_image, samples_percentile(&text.gaps, 1));
        samples_add(&out->first, with_image.first - with_image.sent);
    }
    wire_close(&text.wire, false);
    stream_free(&text);
    stream_free(&with_image);
    return ok;
}

bool measure_stall(struct serve *b, ey_err *e)
{
    const struct serve_settings *o = b->settings;
    struct stall s = {.alone = {.n = 0}};
    bool ok = true;
    for (int i = 0; ok && i < o->rounds; i++)
        ok = run_stall(b, &s, e);
    if (ok) {
        printf("\nA stream while another client sends an image of %dx%d, %d rounds; milliseconds\n",
               o->big_width, o->big_height, o->rounds);
        printf(
            "alone          token to token: median %.2f, longest of a round %.1f (%.1f to %.1f)\n",
            1e3 * samples_percentile(&s.usual, 0.5), 1e3 * samples_percentile(&s.alone, 0.5),
            1e3 * samples_percentile(&s.alone, 0), 1e3 * samples_percentile(&s.alone, 1));
        printf("with the image                 longest of a round %.1f (%.1f to %.1f)\n",
               1e3 * samples_percentile(&s.with_image, 0.5),
               1e3 * samples_percentile(&s.with_image, 0),
               1e3 * samples_percentile(&s.with_image, 1));
        printf("the image's own first token after %.0f (%.0f to %.0f)\n",
               1e3 * samples_percentile(&s.first, 0.5), 1e3 * samples_percentile(&s.first, 0),
               1e3 * samples_percentile(&s.first, 1));
        fflush(stdout);
    }
    samples_free(&s.alone);
    samples_free(&s.with_image);
    samples_free(&s.first);
    samples_free(&s.usual);
    return ok;
}
