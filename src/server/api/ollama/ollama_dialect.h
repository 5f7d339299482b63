/* SPDX-License-Identifier: Apache-2.0 */
/* Ollama's API: chat and generate, vectors, and bodies that only name a model. */
#ifndef EY_SERVER_OLLAMA_DIALECT_H
#define EY_SERVER_OLLAMA_DIALECT_H

#include "server/api/common/api_dialect.h"

/* The kinds: which route a request came by. */
enum ollama_kind { OLLAMA_CHAT, OLLAMA_GENERATE, OLLAMA_NAME, OLLAMA_EMBED, OLLAMA_EMBEDDINGS };

extern const struct api_dialect ollama_dialects[]; /* by kind */

/* Between the answer's end and the stream's. */
struct ollama_state {
    ey_finish finish;
};

bool ollama_read(struct api_parser *p);
/* "options": how tokens are drawn. */
bool ollama_read_options(struct api_parser *p, const char *path, json_object *value);
bool ollama_read_think(struct api_parser *p, const char *path, json_object *value);
bool ollama_read_format(struct api_parser *p, const char *path, json_object *value);
/* Leaves out of a schema the keywords that grammars do not have and that only narrow a value;
 * appends their names, ", " between, to `dropped`. False: no memory. */
bool ollama_drop_narrowing(json_object *schema, struct buf *dropped);

/* How long a model is to stay: seconds, INFINITY for ever. *given is false where nothing is said.
 */
bool ollama_read_keep_alive(json_object *request, bool *given, double *seconds,
                            struct api_error *error);
/* Whether the request has no question, but loads or unloads a model. */
bool ollama_asks_nothing(json_object *request, enum ollama_kind kind);

bool ollama_read_embed(struct api_parser *p);
void ollama_write_embed(struct buf *out, struct api_reply *reply, const struct api_choice *choices,
                        size_t n, const struct api_usage *usage);

void ollama_write_whole(struct buf *out, struct api_reply *reply, const struct api_choice *choices,
                        size_t n, const struct api_usage *usage);
void ollama_write_event(struct buf *out, struct api_reply *reply, const struct api_event *event);
/* The answer to a request that asks nothing: `reason` "load" or "unload". */
void ollama_write_load(struct buf *out, const struct api_reply *reply, const char *reason);
void ollama_write_unknown_model(char *out, size_t size, const char *asked, const char *names);

error_form_fn write_ollama_error; /* {"error": "text"} */

/* RFC 3339 with at most six digits of a second, which Python's readers take. */
void ollama_write_time(char out[40], int64_t seconds, long microseconds);

#endif
