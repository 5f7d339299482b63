/* SPDX-License-Identifier: Apache-2.0 */
/* The table of OpenAI's dialects, and the conversion of events to chunks. */
#include "server/api/openai_chat/openai_dialect.h"

#include "server/api/openai_chat/api_reply.h"

static void write_openai_whole(struct buf *out, struct api_reply *reply,
                               const struct api_choice *choices, size_t n,
                               const struct api_usage *usage)
{
    if (reply->kind == API_CHAT && n) reply->prompt_logprobs = &choices[0].prompt_logprobs;
    struct json_writer w = reply_open(out, reply);
    for (size_t i = 0; i < n; i++)
        reply_add_choice(&w, reply, &choices[i]);
    reply_close(&w, usage);
}

static void write_openai_event(struct buf *out, struct api_reply *reply,
                               const struct api_event *event)
{
    switch (event->type) {
    case API_EVENT_OPEN: break;
    case API_EVENT_START: reply_chunk_role(out, reply, event->index); break;
    case API_EVENT_THINKING:
        reply_chunk_thinking(out, reply, event->index, event->text, event->n_text);
        break;
    case API_EVENT_TEXT:
        reply_chunk_text(out, reply, event->index, event->text, event->n_text, event->logprobs);
        break;
    case API_EVENT_CALL:
        reply_chunk_call(out, reply, event->index, event->call_index, event->call);
        break;
    case API_EVENT_END:
        reply_chunk_end(out, reply, event->index, event->end, event->logprobs);
        break;
    case API_EVENT_FINISH:
        if (reply->request->include_usage) reply_chunk_usage(out, reply, event->usage);
        reply_done(out);
        break;
    case API_EVENT_ERROR:
        reply_chunk_error(out, event->error);
        reply_done(out);
        break;
    case API_EVENT_SILENCE: reply_comment(out, "%s", event->text); break;
    }
}

#define OPENAI_DIALECT(the_kind, prefix)                             \
    [the_kind] = {.kind = the_kind,                                  \
                  .id_prefix = prefix,                               \
                  .call_prefix = "call_",                            \
                  .json_type = "application/json",                   \
                  .stream_type = "text/event-stream; charset=utf-8", \
                  .read = openai_read,                               \
                  .write_whole = write_openai_whole,                 \
                  .write_event = write_openai_event}

const struct api_dialect openai_dialects[] = {
    OPENAI_DIALECT(API_CHAT, "chatcmpl-"), OPENAI_DIALECT(API_COMPLETION, "cmpl-"),
    OPENAI_DIALECT(API_TOKENIZE, "cmpl-"), OPENAI_DIALECT(API_DETOKENIZE, "cmpl-")};
