/* SPDX-License-Identifier: Apache-2.0 */
/* Writes answers as events of a stream. A whole answer is the response object of the last event;
 * the events before it are written to a buffer that is not sent. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/text/json_writer.h"
#include "server/api/openai_responses/responses_dialect.h"

/* ---- the response object ---- */

static void write_response_usage(struct json_writer *w, const struct api_usage *usage)
{
    json_open_object(w);
    json_add_int(w, "input_tokens", usage->prompt_tokens);
    json_write_key(w, "input_tokens_details");
    json_open_object(w);
    json_add_int(w, "cached_tokens", usage->cached_tokens);
    json_add_int(w, "cache_write_tokens", 0);
    json_close_object(w);
    json_add_int(w, "output_tokens", usage->completion_tokens);
    json_write_key(w, "output_tokens_details");
    json_open_object(w);
    json_add_int(w, "reasoning_tokens", usage->thinking_tokens);
    json_close_object(w);
    json_add_int(w, "total_tokens", usage->prompt_tokens + usage->completion_tokens);
    json_close_object(w);
}

static void write_failure(struct json_writer *w, const struct api_error *error)
{
    const char *code = responses_error_code(error);
    json_open_object(w);
    json_add_string(w, "code", code ? code : "server_error");
    json_add_string(w, "message", api_error_text(error));
    json_close_object(w);
}

/* Whether input and response fit the store. The response consists of its items, the members that
 * repeat the request, and less than 8 KiB of other members. */
static bool is_kept(const struct api_reply *reply)
{
    enum { OTHER_BYTES = 8 << 10 };
    const struct responses_state *s = reply->state;
    const struct responses_request *own = reply->request->own;
    return own->input &&
           responses_store_keeps(s->store, strlen(own->input) + strlen(own->repeated) +
                                               s->items.size + OTHER_BYTES);
}

/* `usage` is NULL if the response is in progress or failed. */
static void write_response(struct buf *out, const struct api_reply *reply, const char *status,
                           const struct api_usage *usage, const struct api_error *error)
{
    const struct responses_state *s = reply->state;
    const struct responses_request *own = reply->request->own;
    static const char cut_by[] = "{\"reason\":\"max_output_tokens\"}";
    bool cut = usage && s->end.finish == EY_FINISH_LENGTH;
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    json_open_object(&w);
    json_add_string(&w, "id", reply->id);
    json_add_string(&w, "object", "response");
    json_add_int(&w, "created_at", reply->created);
    json_write_key(&w, "completed_at");
    if (usage)
        json_write_int(&w, (int64_t)time(NULL));
    else
        json_write_null(&w);
    json_add_string(&w, "status", status);
    json_write_key(&w, "error");
    if (error)
        write_failure(&w, error);
    else
        json_write_null(&w);
    json_write_key(&w, "incomplete_details");
    if (cut)
        json_write_raw(&w, cut_by, sizeof(cut_by) - 1);
    else
        json_write_null(&w);
    json_add_string(&w, "model", reply->request->model[0] ? reply->request->model : reply->model);
    json_write_key(&w, "output");
    json_open_array(&w);
    if (s->items.size && (usage || error)) json_write_raw(&w, s->items.data, s->items.size);
    json_close_array(&w);
    json_add_string(&w, "previous_response_id", s->previous_id[0] ? s->previous_id : NULL);
    json_add_bool(&w, "store", is_kept(reply));
    buf_add_text(out, own->repeated);
    json_write_key(&w, "usage");
    if (usage)
        write_response_usage(&w, usage);
    else
        json_write_null(&w);
    if (usage) api_add_repetition(&w, &usage->repetition);
    json_close_object(&w);
}

static void store_response(const struct api_reply *reply, char *response)
{
    struct responses_state *s = reply->state;
    const struct responses_request *own = reply->request->own;
    struct stored_response kept = {.response = response};
    if (!is_kept(reply)) return;
    kept.input = (char *)(uintptr_t)own->input; /* copied by the store */
    snprintf(kept.id, sizeof(kept.id), "%s", reply->id);
    snprintf(kept.previous, sizeof(kept.previous), "%s", s->previous_id);
    responses_store_put(s->store, s->owner, &kept, seconds_now());
}

/* ---- events ---- */

static struct json_writer open_response_event(struct buf *out, struct responses_state *s,
                                              const char *name)
{
    buf_printf(out, "event: %s\ndata: ", name);
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    json_open_object(&w);
    json_add_string(&w, "type", name);
    json_add_int(&w, "sequence_number", s->sequence++);
    return w;
}

static void close_response_event(struct json_writer *w)
{
    json_close_object(w);
    buf_add_text(w->out, "\n\n");
}

/* Begins an event about a part of the open item. */
static struct json_writer open_part_event(struct buf *out, struct responses_state *s,
                                          const char *name)
{
    struct json_writer w = open_response_event(out, s, name);
    json_add_string(&w, "item_id", s->item_id);
    json_add_int(&w, "output_index", s->n_items);
    if (s->open == RESPONSES_THOUGHT) json_add_int(&w, "summary_index", 0);
    if (s->open == RESPONSES_MESSAGE) json_add_int(&w, "content_index", 0);
    return w;
}

static void write_item_event(struct buf *out, struct responses_state *s, const char *name,
                             const char *item, size_t n)
{
    struct json_writer w = open_response_event(out, s, name);
    json_add_int(&w, "output_index", s->n_items);
    json_write_key(&w, "item");
    json_write_raw(&w, item, n);
    close_response_event(&w);
}

static void write_state_event(struct buf *out, const struct api_reply *reply, const char *name,
                              const char *response, size_t n)
{
    struct json_writer w = open_response_event(out, reply->state, name);
    json_write_key(&w, "response");
    json_write_raw(&w, response, n);
    close_response_event(&w);
}

static void write_begin(struct buf *out, const struct api_reply *reply)
{
    struct buf response = buf_with_max(EY_MAX_RESPONSE_BYTES);
    write_response(&response, reply, "in_progress", NULL, NULL);
    if (response.failed) {
        out->failed = true;
        return;
    }
    write_state_event(out, reply, "response.created", response.data, response.size);
    write_state_event(out, reply, "response.in_progress", response.data, response.size);
    buf_free(&response);
}

/* ---- items ---- */

static void begin_item(struct responses_state *s, const char *prefix)
{
    api_random_id(s->item_id, prefix);
    if (!s->text.max) {
        s->text = buf_with_max(EY_MAX_RESPONSE_BYTES);
        s->logprobs = buf_with_max(EY_MAX_RESPONSE_BYTES);
    }
    buf_clear(&s->text);
    buf_clear(&s->logprobs);
}

/* Writes the event that ends the item whose JSON begins at s->items.data[at]. */
static void finish_output_item(struct buf *out, struct responses_state *s, size_t at)
{
    if (s->items.failed) {
        out->failed = true;
        return;
    }
    write_item_event(out, s, "response.output_item.done", s->items.data + at, s->items.size - at);
    s->open = RESPONSES_CLOSED;
    s->n_items++;
}

static size_t next_output_item(struct responses_state *s)
{
    if (!s->items.max) s->items = buf_with_max(EY_MAX_RESPONSE_BYTES);
    if (s->items.size) buf_add_text(&s->items, ",");
    return s->items.size;
}

static void open_reasoning(struct buf *out, struct responses_state *s)
{
    static const char empty[] = "{\"type\":\"summary_text\",\"text\":\"\"}";
    struct buf item = buf_with_max(EY_MAX_RESPONSE_BYTES);
    begin_item(s, "rs_");
    responses_add_thought(&item, s->item_id, "", 0, false, "in_progress");
    if (!item.failed) write_item_event(out, s, "response.output_item.added", item.data, item.size);
    out->failed = out->failed || item.failed;
    buf_free(&item);
    s->open = RESPONSES_THOUGHT;
    struct json_writer w = open_part_event(out, s, "response.reasoning_summary_part.added");
    json_write_key(&w, "part");
    json_write_raw(&w, empty, sizeof(empty) - 1);
    close_response_event(&w);
}

static void close_thought(struct buf *out, const struct api_reply *reply, const char *status)
{
    struct responses_state *s = reply->state;
    const struct responses_request *own = reply->request->own;
    struct json_writer w = open_part_event(out, s, "response.reasoning_summary_text.done");
    json_write_key(&w, "text");
    json_write_text(&w, s->text.data, s->text.size);
    close_response_event(&w);
    w = open_part_event(out, s, "response.reasoning_summary_part.done");
    json_write_key(&w, "part");
    json_open_object(&w);
    json_add_string(&w, "type", "summary_text");
    json_write_key(&w, "text");
    json_write_text(&w, s->text.data, s->text.size);
    json_close_object(&w);
    close_response_event(&w);
    size_t at = next_output_item(s);
    responses_add_thought(&s->items, s->item_id, s->text.data, s->text.size,
                          own->encrypted_thoughts, status);
    finish_output_item(out, s, at);
}

static void open_text(struct buf *out, struct responses_state *s)
{
    struct buf item = buf_with_max(EY_MAX_RESPONSE_BYTES);
    begin_item(s, "msg_");
    responses_add_message(&item, s->item_id, NULL, NULL, "in_progress");
    if (!item.failed) write_item_event(out, s, "response.output_item.added", item.data, item.size);
    out->failed = out->failed || item.failed;
    buf_free(&item);
    s->open = RESPONSES_MESSAGE;
    s->any_text = true;
    struct json_writer w = open_part_event(out, s, "response.content_part.added");
    json_write_key(&w, "part");
    responses_write_text_part(&w, &s->text, NULL);
    close_response_event(&w);
}

static void close_text(struct buf *out, struct responses_state *s, const char *status)
{
    struct json_writer w = open_part_event(out, s, "response.output_text.done");
    json_write_key(&w, "text");
    json_write_text(&w, s->text.data ? s->text.data : "", s->text.size);
    responses_add_logprobs(&w, &s->logprobs);
    close_response_event(&w);
    w = open_part_event(out, s, "response.content_part.done");
    json_write_key(&w, "part");
    responses_write_text_part(&w, &s->text, &s->logprobs);
    close_response_event(&w);
    size_t at = next_output_item(s);
    responses_add_message(&s->items, s->item_id, &s->text, &s->logprobs, status);
    finish_output_item(out, s, at);
}

static void close_open_item(struct buf *out, const struct api_reply *reply, const char *status)
{
    struct responses_state *s = reply->state;
    if (s->text.failed || s->logprobs.failed) out->failed = true;
    if (out->failed) return;
    if (s->open == RESPONSES_THOUGHT) close_thought(out, reply, status);
    if (s->open == RESPONSES_MESSAGE) close_text(out, s, status);
}

/* ---- deltas ---- */

static void write_thought_piece(struct buf *out, const struct api_reply *reply, const char *text,
                                size_t n)
{
    struct responses_state *s = reply->state;
    if (!n) return;
    if (s->open != RESPONSES_THOUGHT) {
        close_open_item(out, reply, "completed");
        open_reasoning(out, s);
    }
    buf_add(&s->text, text, n);
    struct json_writer w = open_part_event(out, s, "response.reasoning_summary_text.delta");
    json_write_key(&w, "delta");
    json_write_text(&w, text, n);
    close_response_event(&w);
}

/* White space between calls is not sent as text. */
static void write_answer_piece(struct buf *out, const struct api_reply *reply, const char *text,
                               size_t n, const struct api_logprobs *logprobs)
{
    struct responses_state *s = reply->state;
    bool between = s->open != RESPONSES_MESSAGE && s->called && api_text_is_white(text, n);
    struct buf now = buf_with_max(EY_MAX_RESPONSE_BYTES);
    if (between || (!n && !(logprobs && logprobs->n))) return;
    if (s->open != RESPONSES_MESSAGE) {
        close_open_item(out, reply, "completed");
        open_text(out, s);
    }
    buf_add(&s->text, text, n);
    responses_write_logprobs(&now, logprobs);
    responses_write_logprobs(&s->logprobs, logprobs);
    struct json_writer w = open_part_event(out, s, "response.output_text.delta");
    json_write_key(&w, "delta");
    json_write_text(&w, text, n);
    responses_add_logprobs(&w, &now);
    close_response_event(&w);
    out->failed = out->failed || now.failed;
    buf_free(&now);
}

static void write_call_events(struct buf *out, const struct api_reply *reply,
                              const struct api_tool_call *call)
{
    struct responses_state *s = reply->state;
    struct buf item = buf_with_max(EY_MAX_RESPONSE_BYTES);
    close_open_item(out, reply, "completed");
    begin_item(s, "fc_");
    s->called = true;
    responses_add_call(&item, s->item_id, call, false, "in_progress");
    if (!item.failed) write_item_event(out, s, "response.output_item.added", item.data, item.size);
    out->failed = out->failed || item.failed;
    buf_free(&item);
    struct json_writer w = open_part_event(out, s, "response.function_call_arguments.delta");
    json_write_key(&w, "delta");
    json_write_text(&w, call->arguments, call->n_arguments);
    close_response_event(&w);
    w = open_part_event(out, s, "response.function_call_arguments.done");
    json_add_string(&w, "name", call->name);
    json_write_key(&w, "arguments");
    json_write_text(&w, call->arguments, call->n_arguments);
    close_response_event(&w);
    size_t at = next_output_item(s);
    responses_add_call(&s->items, s->item_id, call, true, "completed");
    finish_output_item(out, s, at);
}

/* Ends the last item. An answer without text and calls gets an empty message. */
static void write_item_end(struct buf *out, const struct api_reply *reply,
                           const struct api_event *event)
{
    struct responses_state *s = reply->state;
    bool cut = event->end->finish == EY_FINISH_LENGTH;
    s->end = *event->end;
    if (!s->called && s->open != RESPONSES_MESSAGE && !s->any_text) {
        close_open_item(out, reply, "completed");
        open_text(out, s);
    }
    if (event->logprobs && s->open == RESPONSES_MESSAGE)
        responses_write_logprobs(&s->logprobs, event->logprobs);
    close_open_item(out, reply, cut ? "incomplete" : "completed");
}

/* ---- the end ---- */

/* Writes the response to `whole`, and the event that contains it to `out`. */
static void write_end_of_response(struct buf *out, struct buf *whole, const struct api_reply *reply,
                                  const struct api_usage *usage, const struct api_error *error)
{
    const struct responses_state *s = reply->state;
    const char *status = error                               ? "failed"
                         : s->end.finish == EY_FINISH_LENGTH ? "incomplete"
                                                             : "completed";
    char name[32];
    snprintf(name, sizeof(name), "response.%s", status);
    write_response(whole, reply, status, usage, error);
    if (whole->failed) {
        out->failed = true;
        return;
    }
    if (!error) store_response(reply, whole->data);
    write_state_event(out, reply, name, whole->data, whole->size);
}

static void write_last_event(struct buf *out, const struct api_reply *reply,
                             const struct api_usage *usage, const struct api_error *error)
{
    struct buf whole = buf_with_max(EY_MAX_RESPONSE_BYTES);
    write_end_of_response(out, &whole, reply, usage, error);
    buf_free(&whole);
}

void responses_write_event(struct buf *out, struct api_reply *reply, const struct api_event *event)
{
    switch (event->type) {
    case API_EVENT_OPEN: write_begin(out, reply); break;
    case API_EVENT_START: break;
    case API_EVENT_THINKING: write_thought_piece(out, reply, event->text, event->n_text); break;
    case API_EVENT_TEXT:
        write_answer_piece(out, reply, event->text, event->n_text, event->logprobs);
        break;
    case API_EVENT_CALL: write_call_events(out, reply, event->call); break;
    case API_EVENT_END: write_item_end(out, reply, event); break;
    case API_EVENT_FINISH: write_last_event(out, reply, event->usage, NULL); break;
    case API_EVENT_ERROR: write_last_event(out, reply, NULL, event->error); break;
    case API_EVENT_SILENCE: buf_printf(out, ": %s\n\n", event->text); break;
    }
}

void responses_write_whole(struct buf *out, struct api_reply *reply,
                           const struct api_choice *choices, size_t n,
                           const struct api_usage *usage)
{
    const struct api_choice *choice = choices; /* exactly one */
    const struct api_event end = {.type = API_EVENT_END, .end = &choice->end};
    struct buf unseen = buf_with_max(EY_MAX_RESPONSE_BYTES);
    (void)n;
    write_thought_piece(&unseen, reply, choice->thinking, choice->n_thinking);
    write_answer_piece(&unseen, reply, choice->text, choice->n_text, &choice->logprobs);
    for (size_t i = 0; i < choice->n_calls; i++)
        write_call_events(&unseen, reply, &choice->calls[i]);
    write_item_end(&unseen, reply, &end);
    write_end_of_response(&unseen, out, reply, usage, NULL);
    if (unseen.failed) out->failed = true;
    buf_free(&unseen);
}

void responses_close_state(void *state)
{
    struct responses_state *s = state;
    buf_free(&s->items);
    buf_free(&s->text);
    buf_free(&s->logprobs);
}
