/* SPDX-License-Identifier: Apache-2.0 */
/* Answers as the API's JSON: whole objects, and the chunks of a stream as server-sent events. Each
 * function appends; a buf remembers when it could not. */
#ifndef EY_SERVER_API_REPLY_H
#define EY_SERVER_API_REPLY_H

#include "base/text/json_writer.h"
#include "server/api/common/api_request.h"
#include "server/api/common/api_usage.h"

/* What all objects of one exchange say alike. */
struct api_reply {
    enum api_kind kind;
    char id[48];     /* "chatcmpl-…", "cmpl-…" */
    int64_t created; /* seconds since 1970 */
    const char *model;
};
struct api_reply reply_start(enum api_kind kind, const char *model);

struct reply_call {
    char id[48];
    const char *name, *arguments;
    size_t n_arguments;
};
/* A new call's id, in its struct. */
void reply_call_set_id(struct reply_call *call);

/* How an answer ended. */
struct reply_end {
    ey_finish finish;
    bool called;           /* it stopped after tool calls, which the API tells apart */
    const char *stop_text; /* NULL: none of the request's stop texts */
    int stop_id;           /* -1: none of its stop_token_ids */
};

/* Log-probabilities of tokens[n]; those of a completion count characters from *offset on. NULL
 * tokens: none were requested. */
struct reply_logprobs {
    const ey_token_logprobs *tokens;
    size_t n;
    size_t *offset;
};

struct reply_choice {
    int index;
    const char *text; /* content */
    size_t n_text;
    const struct reply_call *calls;
    size_t n_calls;
    struct reply_logprobs logprobs;
    struct reply_end end;
};

/* {"id", "object", …, "choices": [, then each choice, then }], "usage"}. */
struct json_writer reply_open(struct buf *out, const struct api_reply *reply);
void reply_add_choice(struct json_writer *w, const struct api_reply *reply,
                      const struct reply_choice *choice);
void reply_close(struct json_writer *w, const struct api_usage *usage);

/* Chunks: a choice begins, goes on with text or a tool call, and ends. A completion has no
 * beginning. */
void reply_chunk_role(struct buf *out, const struct api_reply *reply, int index);
void reply_chunk_text(struct buf *out, const struct api_reply *reply, int index, const char *text,
                      size_t n, const struct reply_logprobs *logprobs);
void reply_chunk_call(struct buf *out, const struct api_reply *reply, int index, int call_index,
                      const struct reply_call *call);
void reply_chunk_end(struct buf *out, const struct api_reply *reply, int index,
                     const struct reply_end *end, const struct reply_logprobs *logprobs);
void reply_chunk_usage(struct buf *out, const struct api_reply *reply,
                       const struct api_usage *usage);
void reply_done(struct buf *out);
/* What went wrong after the stream had begun. */
void reply_chunk_error(struct buf *out, const struct api_error *error);
/* A line that clients skip. */
void reply_comment(struct buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Values of other replies: arrays. */
void reply_write_ids(struct json_writer *w, const int *ids, size_t n);
void reply_write_images(struct json_writer *w, const ey_image_usage *images, size_t n);

#endif
