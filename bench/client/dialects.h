/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a question in each dialect of the server and reads the answers. */
#ifndef EY_BENCH_DIALECTS_H
#define EY_BENCH_DIALECTS_H

#include "client/chat_client.h"

enum dialect {
    DIALECT_CHAT,
    DIALECT_COMPLETIONS,
    DIALECT_RESPONSES,
    DIALECT_MESSAGES,
    DIALECT_OLLAMA_CHAT,
    DIALECT_OLLAMA_GENERATE,
    DIALECT_LLAMACPP,
    N_DIALECTS
};

/* A question for a greedy answer. */
struct question {
    const char *text; /* DIALECT_COMPLETIONS and DIALECT_LLAMACPP apply no chat template */
    const char *image_type;
    const void *image; /* NULL: none; DIALECT_COMPLETIONS has no images */
    size_t n_image;
    int max_tokens;
};

const char *dialect_name(enum dialect d);
const char *dialect_path(enum dialect d);

/* Writes the question's body without its last members. */
void dialect_begin_body(struct buf *out, enum dialect d, const struct question *q);
/* Completes the body. `model` may be NULL in Chat and Completions: the server's first model. */
void dialect_end_body(struct buf *out, enum dialect d, const char *model, bool stream);

/* Reads a whole answer. */
void dialect_read_whole(enum dialect d, struct chat_answer *a, const struct buf *body);
/* Reads new pieces of a stream; returns how many have text. */
int dialect_read_stream(enum dialect d, struct chat_answer *a, const struct buf *body);

#endif
