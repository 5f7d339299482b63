/* SPDX-License-Identifier: Apache-2.0 */
/* Starts all prompts together. The rate covers only the time in which all streams decode: it begins
 * when every stream has its first token and ends when the first stream is done. */
#include "cli/commands/bench_streams.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "cli/terminal/cancel.h"

enum { FIRST_ID = 100, ID_STEP = 37, MIN_VOCAB_SIZE = 1024, MAX_SAMPLES = 1 << 16 };

struct bench_stream {
    ey_generation *generation;
    double started, first, end;
    int tokens;
};

/* Samples of the number of generated tokens. */
struct token_history {
    double time[MAX_SAMPLES];
    uint64_t tokens[MAX_SAMPLES];
    int n;
};

/* Fills a prompt with ids that differ between streams, so that no prefix is shared. They come from
 * the lower half of the vocabulary: image tokens, which are not allowed in a prompt, are near its
 * end. */
static void fill_ids(int *ids, int depth, int stream, int vocab_size)
{
    const int first = vocab_size < MIN_VOCAB_SIZE ? 0 : FIRST_ID, n_distinct = vocab_size / 2;
    for (int i = 0; i < depth; i++)
        ids[i] = first + (int)(((int64_t)i * ID_STEP + 1009 * (stream + 1)) % n_distinct);
}

static bool start_bench_stream(ey_engine *engine, struct bench_stream *s, const int *ids, int depth,
                               int tokens, ey_err *e)
{
    ey_request request = ey_request_defaults();
    ey_prompt *prompt = NULL;
    request.ids = ids;
    request.n_ids = (size_t)depth;
    request.max_tokens = tokens;
    request.ignore_eos = true;
    request.no_prefix_cache = true;
    bool ok = ey_prompt_prepare(engine, &request, &prompt, e);
    s->started = seconds_now();
    ok = ok && ey_generation_start(engine, prompt, &request, &s->generation, e);
    ey_prompt_free(&prompt);
    return ok;
}

/* Handles pending events. Returns whether some streams are still running. */
static bool poll_bench_streams(struct bench_stream *s, int n)
{
    bool more = false;
    for (int i = 0; i < n; i++) {
        ey_event event = {0};
        if (cancel_requested()) ey_generation_cancel(s[i].generation);
        while (s[i].end <= 0 &&
               (ey_generation_next(s[i].generation, 0, &event), event.type != EY_EVENT_NONE))
            if (event.type == EY_EVENT_DONE) s[i].end = seconds_now();
        more |= s[i].end <= 0;
    }
    return more;
}

static void sample_bench_streams(const ey_engine *engine, struct bench_stream *s, int n,
                                 struct token_history *h)
{
    const double start = seconds_now();
    while (poll_bench_streams(s, n)) {
        double now = seconds_now();
        /* Pauses for 0.1 % of the elapsed time, because polling takes CPU time from the engine. */
        double rest = (now - start) / 1000;
        const struct timespec pause = {0, (long)(1e9 * (rest < 0.0002 ? 0.0002
                                                        : rest < 0.02 ? rest
                                                                      : 0.02))};
        if (h->n < MAX_SAMPLES) {
            h->time[h->n] = now;
            h->tokens[h->n++] = ey_engine_stats(engine).generated_tokens;
        }
        nanosleep(&pause, NULL);
    }
}

static double tokens_at(const struct token_history *h, double time)
{
    for (int i = 1; i < h->n; i++) {
        if (h->time[i] < time) continue;
        double part = (time - h->time[i - 1]) / (h->time[i] - h->time[i - 1]);
        return (double)h->tokens[i - 1] + part * (double)(h->tokens[i] - h->tokens[i - 1]);
    }
    return h->n ? (double)h->tokens[h->n - 1] : 0;
}

/* Ends all streams. Returns false if one failed. */
static bool collect_bench_streams(struct bench_stream *s, int n, double *prefill, ey_err *e)
{
    bool ok = true;
    for (int i = 0; i < n; i++) {
        ey_answer a = {0};
        if (!s[i].generation) continue;
        ey_err failed = {0};
        if (!ey_generation_collect(&s[i].generation, &a, &failed) && ok) {
            *e = failed;
            ok = false;
        }
        s[i].tokens = a.completion_tokens;
        s[i].first = s[i].started + a.queue_seconds + a.vision_seconds + a.prefill_seconds;
        s[i].end = s[i].first + a.decode_seconds;
        if (i == 0) *prefill = a.prefill_seconds;
        ey_answer_free(&a);
    }
    return ok;
}

bool bench_streams(ey_engine *engine, int n, int depth, int tokens, struct bench_streams_rate *out,
                   ey_err *e)
{
    static struct bench_stream s[BENCH_STREAMS];
    struct token_history *h = calloc(1, sizeof(*h));
    int *ids = malloc((size_t)depth * sizeof(*ids) + 1),
        vocab_size = ey_engine_describe(engine).vocab_size;
    bool ok = (h && ids) ||
              (*e = (ey_err){.code = EY_NO_MEMORY, .text = "no memory for the bench"}, false);
    for (int i = 0; i < n; i++)
        s[i] = (struct bench_stream){0};
    for (int i = 0; ok && i < n; i++) {
        fill_ids(ids, depth, i, vocab_size);
        ok = start_bench_stream(engine, &s[i], ids, depth, tokens, e);
    }
    if (ok) sample_bench_streams(engine, s, n, h);
    ok = collect_bench_streams(s, n, &out->prefill_seconds, e) && ok;
    double first = 0, last = 0;
    for (int i = 0; i < n; i++) {
        if (s[i].first > first) first = s[i].first;
        if (!i || s[i].end < last) last = s[i].end;
    }
    if (ok) {
        out->seconds = last - first;
        /* A single stream's tokens are counted, because samples may miss a short answer. */
        out->tokens = n == 1 ? s[0].tokens - 1 : tokens_at(h, last) - tokens_at(h, first);
    }
    free(h);
    free(ids);
    return ok;
}
