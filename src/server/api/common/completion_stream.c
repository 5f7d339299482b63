/* SPDX-License-Identifier: Apache-2.0 */
/* Streams answers: the engine makes events and the dialect writes them. The next event is written
 * only when the client has read the last one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/api/common/api_charge.h"
#include "server/api/common/completion.h"

enum { WAIT_MS = 100, SILENCE_SECONDS = 10 };

/* One choice of the stream. */
struct choice_state {
    bool begun;
    ey_tool_parser *tools; /* NULL without tools */
    int n_calls;
    int n_tokens;        /* generated so far */
    int n_hidden;        /* tokens of thoughts, which have no log-probabilities */
    int n_logprobs_sent; /* tokens whose log-probabilities were sent */
    size_t offset;       /* text offset of the next token */
};

struct completion_stream {
    struct completion *a;
    struct choice_state *choice_states; /* [n_slots] */
    struct buf out;                     /* output; `sent` bytes of it were sent */
    size_t sent;
    double last_write, last_check; /* times of the last output and of the last check whether
                                      the client is still there */
    ey_phase phase; /* the engine's phase, and its progress in `done` and `total` (0: unknown) */
    int done, total;
    bool ended;
};

/* ---- log-probabilities ---- */

/* Log-probabilities of tokens from..to-1 of a running answer, without thoughts. */
struct fetched_logprobs {
    ey_token_logprobs *token; /* [n] */
    size_t n;
    ey_logprob *top;
};

static bool fetch_logprobs(struct fetched_logprobs *out, const struct completion *a,
                           const ey_generation *generation, int from, int to)
{
    size_t n = (size_t)(to - from), n_top = (size_t)a->request.request.top_logprobs;
    out->token = calloc(n + 1, sizeof(*out->token));
    out->top = calloc(n * n_top + 1, sizeof(*out->top));
    if (!out->token || !out->top) return false;
    for (size_t i = 0; i < n; i++) {
        out->token[out->n] = ey_generation_logprobs(generation, from + (int)i,
                                                    out->top + i * n_top);
        out->n += out->token[out->n].chosen.id >= 0;
    }
    return true;
}

static void free_logprobs(struct fetched_logprobs *logprobs)
{
    free(logprobs->token);
    free(logprobs->top);
}

/* ---- events ---- */

static void emit_event(struct completion_stream *s, const struct api_event *event)
{
    s->a->request.dialect->write_event(&s->out, &s->a->reply, event);
}

/* Charges the log-probabilities of one event, which may be those of a whole answer or prompt. */
static bool charge_logprobs(struct completion_stream *s, const struct api_logprobs *logprobs)
{
    enum { FREE_BYTES = 64 << 10 };
    uint64_t bytes = api_logprobs_bytes(logprobs);
    return bytes <= FREE_BYTES ||
           api_charge_take(&s->a->choices.answers, bytes, &s->a->request.request, &s->a->error);
}

/* Fetches the log-probabilities of the slot's prompt, from the answer if it has finished. */
static bool fetch_prompt_logprobs(struct fetched_logprobs *out, const struct completion *a,
                                  const struct choice_slot *slot, size_t n)
{
    const size_t n_top = (size_t)a->request.request.top_prompt_logprobs;
    out->token = calloc(n + 1, sizeof(*out->token));
    out->top = calloc(n * n_top + 1, sizeof(*out->top));
    if (!out->token || !out->top) return false;
    for (out->n = 0; out->n < n; out->n++)
        out->token[out->n] = slot->generation
                                 ? ey_generation_prompt_logprobs(slot->generation, (int)out->n,
                                                                 out->top + out->n * n_top)
                                 : slot->answer.prompt_logprobs[out->n];
    completion_trim_alternatives(a, out->token, n);
    return true;
}

/* Writes the prompt and its log-probabilities. */
static bool write_echo(struct completion_stream *s, const struct choice_slot *slot)
{
    const ey_request *request = &s->a->request.request;
    const struct echo_text echo = completion_echo(s->a, slot->index);
    struct fetched_logprobs fetched = {0};
    struct api_logprobs logprobs = {.offset = &s->choice_states[slot->index].offset};
    bool ok = true;
    if (!echo.n) return true;
    if (request->prompt_logprobs && request->top_logprobs >= 0) {
        ok = fetch_prompt_logprobs(&fetched, s->a, slot, slot->n_prompt_tokens) ||
             api_fail_memory(&s->a->error);
        logprobs.tokens = fetched.token;
        logprobs.n = fetched.n;
        ok = ok && charge_logprobs(s, &logprobs);
    }
    if (ok)
        emit_event(s, &(struct api_event){.type = API_EVENT_TEXT,
                                          .index = slot->index,
                                          .text = echo.bytes,
                                          .n_text = echo.n,
                                          .logprobs = &logprobs});
    free_logprobs(&fetched);
    return ok;
}

/* Fails with the exchange's error or, if it has none, for lack of memory. */
static bool fail_event(struct completion_stream *s)
{
    return s->a->error.status ? false : api_fail_memory(&s->a->error);
}

/* Announces the choice and writes its echo, unless that is done already. If it fails, the exchange
 * has the error. */
static bool begin_choice(struct completion_stream *s, const struct choice_slot *slot)
{
    struct choice_state *v = &s->choice_states[slot->index];
    if (v->begun) return true;
    v->begun = true;
    s->total = 0;
    emit_event(s, &(struct api_event){.type = API_EVENT_START, .index = slot->index});
    return write_echo(s, slot);
}

static void write_call_chunk(struct completion_stream *s, const struct choice_slot *slot,
                             const ey_answer_piece *piece)
{
    struct api_tool_call call = {
        .name = piece->name, .arguments = piece->arguments, .n_arguments = piece->n_arguments};
    api_random_id(call.id, s->a->request.dialect->call_prefix);
    emit_event(s, &(struct api_event){.type = API_EVENT_CALL,
                                      .index = slot->index,
                                      .call_index = piece->index,
                                      .call = &call});
    s->choice_states[slot->index].n_calls++;
}

/* Writes a text chunk. Pending log-probabilities go with the first text written. */
static void write_text_chunk(struct completion_stream *s, const struct choice_slot *slot,
                             const char *text, size_t n, struct api_logprobs *logprobs)
{
    struct choice_state *v = &s->choice_states[slot->index];
    emit_event(s, &(struct api_event){.type = API_EVENT_TEXT,
                                      .index = slot->index,
                                      .text = text,
                                      .n_text = n,
                                      .n_tokens = v->n_tokens,
                                      .logprobs = logprobs});
    v->n_logprobs_sent += (int)logprobs->n;
    logprobs->n = 0;
}

static bool write_parsed_text(struct completion_stream *s, const struct choice_slot *slot,
                              struct api_logprobs *logprobs)
{
    ey_answer_piece piece;
    while (ey_tool_parser_next(s->choice_states[slot->index].tools, &piece)) {
        if (!begin_choice(s, slot)) return false;
        if (piece.call)
            write_call_chunk(s, slot, &piece);
        else
            write_text_chunk(s, slot, piece.text, piece.n_text, logprobs);
    }
    return !s->out.failed;
}

static bool write_new_text(struct completion_stream *s, const struct choice_slot *slot,
                           const ey_event *event, struct api_logprobs *logprobs)
{
    struct choice_state *v = &s->choice_states[slot->index];
    if (v->tools)
        return ey_tool_parser_add(v->tools, event->text, event->n_text) &&
               write_parsed_text(s, slot, logprobs);
    if (!begin_choice(s, slot)) return false;
    if (s->a->request.only_echo) return true;
    write_text_chunk(s, slot, event->text, event->n_text, logprobs);
    return !s->out.failed;
}

static bool on_text(struct completion_stream *s, const struct choice_slot *slot,
                    const ey_event *event)
{
    struct choice_state *v = &s->choice_states[slot->index];
    struct fetched_logprobs fetched = {0};
    struct api_logprobs logprobs = {.offset = &v->offset};
    bool ok = true;
    v->n_tokens = event->n_tokens;
    if (s->a->request.request.top_logprobs >= 0) {
        ok = fetch_logprobs(&fetched, s->a, slot->generation, v->n_hidden + v->n_logprobs_sent,
                            event->n_tokens);
        logprobs.tokens = fetched.token;
        logprobs.n = fetched.n;
        v->n_hidden = event->n_tokens - v->n_logprobs_sent - (int)fetched.n;
    }
    ok = ok && write_new_text(s, slot, event, &logprobs);
    free_logprobs(&fetched);
    return ok || fail_event(s);
}

static bool on_thought(struct completion_stream *s, const struct choice_slot *slot,
                       const ey_event *event)
{
    if (s->a->request.hides_thinking) return true;
    if (!begin_choice(s, slot)) return false;
    emit_event(s, &(struct api_event){.type = API_EVENT_THINKING,
                                      .index = slot->index,
                                      .text = event->text,
                                      .n_text = event->n_text,
                                      .n_tokens = event->n_tokens});
    return true;
}

static bool on_done(struct completion_stream *s, const struct choice_slot *slot)
{
    struct choice_state *v = &s->choice_states[slot->index];
    const ey_answer *answer = &slot->answer;
    struct api_logprobs logprobs = {.offset = &v->offset};
    if (answer->logprobs && !s->a->request.only_echo) {
        logprobs.tokens = answer->logprobs + v->n_logprobs_sent;
        logprobs.n = answer->n_logprobs - (size_t)v->n_logprobs_sent;
    }
    if (!charge_logprobs(s, &logprobs)) return false;
    if (v->tools) {
        ey_tool_parser_end(v->tools);
        if (!write_parsed_text(s, slot, &logprobs)) return fail_event(s);
    }
    struct api_end end = completion_finish(s->a, answer, v->n_calls);
    if (!begin_choice(s, slot)) return false;
    emit_event(s, &(struct api_event){.type = API_EVENT_END,
                                      .index = slot->index,
                                      .end = &end,
                                      .n_tokens = answer->completion_tokens,
                                      .logprobs = logprobs.n ? &logprobs : NULL});
    return true;
}

static void note_phase(struct completion_stream *s, const struct choice_slot *slot,
                       const ey_event *event)
{
    if (s->choice_states[slot->index].begun || event->phase == EY_PHASE_DECODE) return;
    s->phase = event->phase;
    s->done = event->done;
    s->total = event->total;
}

/* Writes a keep-alive comment so that proxies and clients do not time out. It is written only after
 * a long silence, because some clients treat comments as events. */
static void break_silence(struct completion_stream *s)
{
    char text[128] = "waiting";
    if (s->out.size || seconds_now() - s->last_write < SILENCE_SECONDS) return;
    if (s->total)
        snprintf(text, sizeof(text), "%s %d/%d", ey_phase_text(s->phase), s->done, s->total);
    emit_event(
        s, &(struct api_event){.type = API_EVENT_SILENCE, .text = text, .n_text = strlen(text)});
}

/* ---- the stream ---- */

static void finish_stream(struct completion_stream *s)
{
    struct api_usage usage;
    completion_choices_usage(&s->a->choices, &usage);
    emit_event(s, &(struct api_event){.type = API_EVENT_FINISH, .usage = &usage});
    s->ended = true;
}

static void finish_stream_with_error(struct completion_stream *s)
{
    emit_event(s, &(struct api_event){.type = API_EVENT_ERROR, .error = &s->a->error});
    s->ended = true;
}

/* Waits briefly for the next event and writes it. */
static bool advance_stream(struct completion_stream *s)
{
    struct completion_choices *choices = &s->a->choices;
    struct choice_slot *slot;
    ey_event event;
    if (!completion_may_continue(s->a) ||
        !completion_choices_next(choices, WAIT_MS, &slot, &event, &s->a->error))
        return false;
    if (slot && event.type == EY_EVENT_PHASE) note_phase(s, slot, &event);
    if (slot && event.type == EY_EVENT_THOUGHT && !on_thought(s, slot, &event)) return false;
    if (slot && event.type == EY_EVENT_TEXT && !on_text(s, slot, &event)) return false;
    if (slot && event.type == EY_EVENT_DONE && !on_done(s, slot)) return false;
    if (choices->n_done == choices->n_slots)
        finish_stream(s);
    else
        break_silence(s);
    return true;
}

static bool client_has_left(struct completion_stream *s, struct exchange *x)
{
    if (seconds_now() - s->last_check < WAIT_MS / 1e3) return false;
    s->last_check = seconds_now();
    return s->a->hung_up = exchange_hung_up(x);
}

static ssize_t pull_completion(void *state, struct exchange *x, char *out, size_t size)
{
    struct completion_stream *s = state;
    while (s->sent == s->out.size) {
        buf_clear(&s->out);
        s->sent = 0;
        if (s->ended) return -1;
        if (client_has_left(s, x)) return -2;
        if (!advance_stream(s)) finish_stream_with_error(s);
        if (s->out.failed) return -2;
        if (s->out.size) s->last_write = seconds_now();
    }
    size_t n = s->out.size - s->sent < size ? s->out.size - s->sent : size;
    memcpy(out, s->out.data + s->sent, n);
    s->sent += n;
    return (ssize_t)n;
}

static void close_choice_states(struct choice_state *states, size_t n)
{
    for (size_t i = 0; states && i < n; i++)
        ey_tool_parser_free(&states[i].tools);
    free(states);
}

/* Returns NULL if memory runs out. */
static struct choice_state *open_choice_states(const struct completion *a)
{
    size_t n = a->choices.n_slots;
    const ey_tool_format *format = ey_engine_tool_format(a->engine);
    struct choice_state *states = calloc(n, sizeof(*states));
    for (size_t i = 0; states && a->request.tools_given && i < n; i++)
        if (!ey_tool_parser_open(&states[i].tools, format, a->request.single_call, NULL)) {
            close_choice_states(states, n);
            return NULL;
        }
    return states;
}

static void close_completion(void *state)
{
    struct completion_stream *s = state;
    close_choice_states(s->choice_states, s->a->choices.n_slots);
    buf_free(&s->out);
    if (!s->ended) s->a->hung_up = true; /* the client disconnected before the answers ended */
    completion_close(s->a);
    free(s);
}

void completion_stream(struct completion *a, struct exchange *x)
{
    struct completion_stream *s = calloc(1, sizeof(*s));
    struct choice_state *choice_states = open_choice_states(a);
    if (!s || !choice_states) {
        free(s);
        close_choice_states(choice_states, a->choices.n_slots);
        exchange_fail(x, 503, NULL, NULL, "no memory for the answer; try again later");
        completion_close(a);
        return;
    }
    *s = (struct completion_stream){.a = a,
                                    .choice_states = choice_states,
                                    .out = buf_with_max(EY_MAX_RESPONSE_BYTES),
                                    .last_write = seconds_now()};
    emit_event(s, &(struct api_event){.type = API_EVENT_OPEN});
    exchange_stream(x, 200, a->request.dialect->stream_type,
                    (struct response_stream){pull_completion, close_completion, s});
}
