/* SPDX-License-Identifier: Apache-2.0 */
/* Writes answers as the API's JSON: whole objects, and stream chunks as server-sent events. Each
 * function appends to a buf, which remembers a failed allocation. */
#ifndef EY_SERVER_API_REPLY_H
#define EY_SERVER_API_REPLY_H

#include "base/text/json_writer.h"
#include "server/api/common/api_answer.h"

/* Write {"id", "object", ..., "choices": [choices], "usage"}: open, add each choice, close. */
struct json_writer reply_open(struct buf *out, const struct api_reply *reply);
void reply_add_choice(struct json_writer *w, const struct api_reply *reply,
                      const struct api_choice *choice);
void reply_close(struct json_writer *w, const struct api_usage *usage);

/* Write chunks: for each choice its role, then thoughts, text and calls, then its end. Completions
 * have no chunk for the role. */
void reply_chunk_role(struct buf *out, const struct api_reply *reply, int index);
void reply_chunk_thinking(struct buf *out, const struct api_reply *reply, int index,
                          const char *text, size_t n);
void reply_chunk_text(struct buf *out, const struct api_reply *reply, int index, const char *text,
                      size_t n, const struct api_logprobs *logprobs);
void reply_chunk_call(struct buf *out, const struct api_reply *reply, int index, int call_index,
                      const struct api_tool_call *call);
void reply_chunk_end(struct buf *out, const struct api_reply *reply, int index,
                     const struct api_end *end, const struct api_logprobs *logprobs);
void reply_chunk_usage(struct buf *out, const struct api_reply *reply,
                       const struct api_usage *usage);
void reply_done(struct buf *out);
/* Writes an error after the stream has begun. */
void reply_chunk_error(struct buf *out, const struct api_error *error);
/* Writes a comment line, which clients ignore. */
void reply_comment(struct buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Write arrays. */
void reply_write_ids(struct json_writer *w, const int *ids, size_t n);
void reply_write_images(struct json_writer *w, const ey_image_usage *images, size_t n);

#endif
