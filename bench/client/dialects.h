/* SPDX-License-Identifier: Apache-2.0 */
/* One question in each of the dialects that the server speaks, and what its answers say. */
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

/* A question that is answered greedily. */
struct question {
    const char *text; /* DIALECT_COMPLETIONS and DIALECT_LLAMACPP have no chat template */
    const char *image_type;
    const void *image; /* NULL: none; DIALECT_COMPLETIONS takes none */
    size_t n_image;
    int max_tokens;
};

const char *dialect_name(enum dialect d);
const char *dialect_path(enum dialect d);

/* Writes the question's body without its last members. */
void dialect_begin_body(struct buf *out, enum dialect d, const struct question *q);
/* Ends the body. `model` may be NULL in Chat and Completions: the server's first. */
void dialect_end_body(struct buf *out, enum dialect d, const char *model, bool stream);

/* A whole answer. */
void dialect_read_whole(enum dialect d, struct chat_answer *a, const struct buf *body);
/* What came of a stream since the last call: how many pieces with text. */
int dialect_read_stream(enum dialect d, struct chat_answer *a, const struct buf *body);

#endif
