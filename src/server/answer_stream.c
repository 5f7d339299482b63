/* SPDX-License-Identifier: Apache-2.0 */
/* Answers as server-sent events, written as the engine gives them and as fast as the client takes
 * them. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/answering.h"
#include "server/api_fields.h"
#include "server/tool_calls.h"

enum { WAIT_MS = 100, QUIET_SECONDS = 15, PROGRESS_SECONDS = 1 };

/* One choice of the stream. */
struct voice {
    bool begun;
    struct tool_calls tools;
    int n_scored;  /* tokens whose log-probabilities are out */
    size_t offset; /* of the next token in the text */
};

struct answer_stream {
    struct answering *a;
    struct voice *voice; /* [n_slots] */
    struct buf out;      /* to be sent; `sent` bytes of it were */
    size_t sent;
    double spoke,
        looked;        /* when something was last written, when the client was last looked after */
    const char *phase; /* that the client was told of */
    bool ended;
};

/* ---- log-probabilities
 * --------------------------------------------------------------------------- */

/* Those of tokens from..to-1 of an answer that still runs. */
struct scores {
    ey_token_logprobs *token;
    ey_candidate *top;
};

static bool fetch_scores(struct scores *out, const struct answering *a, const ey_ticket *ticket,
                         int from, int to)
{
    size_t n = (size_t)(to - from), n_top = (size_t)a->request.request.top_logprobs;
    out->token = calloc(n + 1, sizeof(*out->token));
    out->top = calloc(n * n_top + 1, sizeof(*out->top));
    if (!out->token || !out->top) return false;
    for (size_t i = 0; i < n; i++)
        out->token[i] = ey_ticket_logprobs(ticket, from + (int)i, out->top + i * n_top);
    return true;
}

static void free_scores(struct scores *scores)
{
    free(scores->token);
    free(scores->top);
}

/* ---- chunks
 * -------------------------------------------------------------------------------------- */

static void begin(struct answer_stream *s, const struct answer_slot *slot)
{
    struct voice *v = &s->voice[slot->index];
    struct text echo = answering_echo(s->a, slot->index);
    if (v->begun) return;
    v->begun = true;
    reply_chunk_role(&s->out, &s->a->reply, slot->index);
    if (echo.n) reply_chunk_text(&s->out, &s->a->reply, slot->index, echo.bytes, echo.n, NULL);
}

static void write_call(struct answer_stream *s, const struct answer_slot *slot,
                       const struct tool_event *event)
{
    struct reply_call call = {
        .name = event->name, .arguments = event->arguments, .n_arguments = event->n_arguments};
    reply_call_name(&call);
    reply_chunk_call(&s->out, &s->a->reply, slot->index, event->index, &call);
}

/* Log-probabilities go with the first text that is written; until then they wait. */
static void write_text(struct answer_stream *s, const struct answer_slot *slot, const char *text,
                       size_t n, struct reply_scores *scores)
{
    struct voice *v = &s->voice[slot->index];
    reply_chunk_text(&s->out, &s->a->reply, slot->index, text, n, scores);
    v->n_scored += (int)scores->n;
    scores->n = 0;
}

static bool write_pieces(struct answer_stream *s, const struct answer_slot *slot,
                         struct reply_scores *scores)
{
    struct tool_event event;
    while (tool_calls_next(&s->voice[slot->index].tools, &event)) {
        begin(s, slot);
        if (event.call)
            write_call(s, slot, &event);
        else
            write_text(s, slot, event.text, event.n_text, scores);
    }
    return !s->out.failed;
}

static bool write_news(struct answer_stream *s, const struct answer_slot *slot,
                       const ey_event *event, struct reply_scores *scores)
{
    struct voice *v = &s->voice[slot->index];
    if (s->a->request.tools_given)
        return tool_calls_add(&v->tools, event->text, event->n_text) &&
               write_pieces(s, slot, scores);
    begin(s, slot);
    write_text(s, slot, event->text, event->n_text, scores);
    return !s->out.failed;
}

static bool on_text(struct answer_stream *s, const struct answer_slot *slot, const ey_event *event)
{
    struct voice *v = &s->voice[slot->index];
    struct scores fetched = {0};
    struct reply_scores scores = {.offset = &v->offset};
    bool ok = true;
    if (s->a->request.request.top_logprobs >= 0) {
        ok = fetch_scores(&fetched, s->a, slot->ticket, v->n_scored, event->n_tokens);
        scores.tokens = fetched.token;
        scores.n = (size_t)(event->n_tokens - v->n_scored);
    }
    ok = ok && write_news(s, slot, event, &scores);
    free_scores(&fetched);
    return ok || api_fail_memory(&s->a->error);
}

static bool on_done(struct answer_stream *s, const struct answer_slot *slot)
{
    struct voice *v = &s->voice[slot->index];
    const ey_answer *answer = &slot->answer;
    struct reply_scores scores = {.offset = &v->offset};
    if (answer->logprobs) {
        scores.tokens = answer->logprobs + v->n_scored;
        scores.n = answer->n_logprobs - (size_t)v->n_scored;
    }
    if (s->a->request.tools_given) {
        tool_calls_end(&v->tools);
        if (!write_pieces(s, slot, &scores)) return api_fail_memory(&s->a->error);
    }
    struct reply_end end = answering_end(s->a, answer, v->tools.n_calls);
    begin(s, slot);
    reply_chunk_end(&s->out, &s->a->reply, slot->index, &end, scores.n ? &scores : NULL);
    return true;
}

/* Whoever waits for the first word learns what is done meanwhile. */
static void on_phase(struct answer_stream *s, const struct answer_slot *slot, const ey_event *event)
{
    bool news = !s->phase || strcmp(s->phase, event->phase) != 0;
    if (s->voice[slot->index].begun || strcmp(event->phase, "decode") == 0) return;
    if (!news && seconds_now() - s->spoke < PROGRESS_SECONDS) return;
    s->phase = event->phase;
    reply_comment(&s->out, "%s %d/%d", event->phase, event->done, event->total);
}

/* ---- the stream
 * ---------------------------------------------------------------------------------- */

static void finish(struct answer_stream *s)
{
    struct reply_usage usage;
    answers_usage(&s->a->answers, &usage);
    if (s->a->request.include_usage) reply_chunk_usage(&s->out, &s->a->reply, &usage);
    reply_done(&s->out);
    s->ended = true;
}

static void finish_with_error(struct answer_stream *s)
{
    reply_chunk_error(&s->out, &s->a->error);
    reply_done(&s->out);
    s->ended = true;
}

/* Waits a moment for the next event and writes what it says. */
static bool go_on(struct answer_stream *s)
{
    struct answers *answers = &s->a->answers;
    struct answer_slot *slot;
    ey_event event;
    if (!answering_may_go_on(s->a) || !answers_next(answers, WAIT_MS, &slot, &event, &s->a->error))
        return false;
    if (slot && event.type == EY_EVENT_PHASE) on_phase(s, slot, &event);
    if (slot && event.type == EY_EVENT_TEXT && !on_text(s, slot, &event)) return false;
    if (slot && event.type == EY_EVENT_DONE && !on_done(s, slot)) return false;
    if (answers->n_over == answers->n_slots)
        finish(s);
    else if (!s->out.size && seconds_now() - s->spoke >= QUIET_SECONDS)
        reply_comment(&s->out, "waiting");
    return true;
}

static bool has_left(struct answer_stream *s, struct exchange *x)
{
    if (seconds_now() - s->looked < WAIT_MS / 1e3) return false;
    s->looked = seconds_now();
    return s->a->hung_up = exchange_hung_up(x);
}

static ssize_t pull(void *state, struct exchange *x, char *out, size_t room)
{
    struct answer_stream *s = state;
    while (s->sent == s->out.size) {
        buf_clear(&s->out);
        s->sent = 0;
        if (s->ended) return -1;
        if (has_left(s, x)) return -2;
        if (!go_on(s)) finish_with_error(s);
        if (s->out.failed) return -2;
        if (s->out.size) s->spoke = seconds_now();
    }
    size_t n = s->out.size - s->sent < room ? s->out.size - s->sent : room;
    memcpy(out, s->out.data + s->sent, n);
    s->sent += n;
    return (ssize_t)n;
}

static void close_stream(void *state)
{
    struct answer_stream *s = state;
    for (size_t i = 0; s->voice && i < s->a->answers.n_slots; i++)
        tool_calls_free(&s->voice[i].tools);
    free(s->voice);
    buf_free(&s->out);
    if (!s->ended) s->a->hung_up = true; /* the connection ended before the answers did */
    answering_close(s->a);
    free(s);
}

void answer_stream(struct answering *a, struct exchange *x)
{
    struct answer_stream *s = calloc(1, sizeof(*s));
    struct voice *voice = calloc(a->answers.n_slots, sizeof(*voice));
    if (!s || !voice) {
        free(s);
        free(voice);
        exchange_fail(x, 503, NULL, NULL, "no memory for the answer; ask again later");
        answering_close(a);
        return;
    }
    for (size_t i = 0; i < a->answers.n_slots; i++)
        voice[i].tools = tool_calls_start(a->request.single_call);
    *s = (struct answer_stream){
        .a = a, .voice = voice, .out = buf_with_max(EY_MAX_REPLY_BYTES), .spoke = seconds_now()};
    exchange_stream(x, 200, "text/event-stream; charset=utf-8",
                    (struct stream){pull, close_stream, s});
}
