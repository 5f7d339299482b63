/* SPDX-License-Identifier: Apache-2.0 */
/* Ollama's API: chat, generate, embeddings, and requests that only name a model. */
#ifndef EY_SERVER_OLLAMA_DIALECT_H
#define EY_SERVER_OLLAMA_DIALECT_H

#include "server/api/common/api_dialect.h"

/* Kinds of requests, one per route. */
enum ollama_kind { OLLAMA_CHAT, OLLAMA_GENERATE, OLLAMA_NAME, OLLAMA_EMBED, OLLAMA_EMBEDDINGS };

extern const struct api_dialect ollama_dialects[]; /* by kind */

/* The state of a stream, for its last line. */
struct ollama_state {
    ey_finish finish;
};

bool ollama_read(struct api_parser *p);
/* Reads "options": sampling parameters. */
bool ollama_read_options(struct api_parser *p, const char *path, json_object *value);
bool ollama_read_think(struct api_parser *p, const char *path, json_object *value);
bool ollama_read_format(struct api_parser *p, const char *path, json_object *value);
/* Removes from a schema the keywords that only narrow a value and that grammars do not support.
 * Appends their names to `dropped`, separated by ", ". Fails if memory runs out. */
bool ollama_drop_narrowing(json_object *schema, struct buf *dropped);

/* Reads the seconds that a model stays loaded after its last request; INFINITY: for ever. *given is
 * false if the field is absent. */
bool ollama_read_keep_alive(json_object *request, bool *given, double *seconds,
                            struct api_error *error);
/* Whether the request has no prompt and only loads or unloads a model. */
bool ollama_asks_nothing(json_object *request, enum ollama_kind kind);

bool ollama_read_embed(struct api_parser *p);
void ollama_write_embed(struct buf *out, struct api_reply *reply, const struct api_choice *choices,
                        size_t n, const struct api_usage *usage);

void ollama_write_whole(struct buf *out, struct api_reply *reply, const struct api_choice *choices,
                        size_t n, const struct api_usage *usage);
void ollama_write_event(struct buf *out, struct api_reply *reply, const struct api_event *event);
/* Writes the answer to a request without a prompt; `reason` is "load" or "unload". */
void ollama_write_load(struct buf *out, const struct api_reply *reply, const char *reason);
void ollama_write_unknown_model(char *out, size_t size, const char *asked, const char *names);

error_form_fn write_ollama_error; /* {"error": "text"} */

/* Writes a time of RFC 3339 with six fractional digits, the most that Python's parsers accept. */
void ollama_write_time(char out[40], int64_t seconds, long microseconds);

#endif
