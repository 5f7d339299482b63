/* SPDX-License-Identifier: Apache-2.0 */
/* Embeds texts and images for embed and search. */
#ifndef EY_CLI_EMBEDDER_H
#define EY_CLI_EMBEDDER_H

#include "cli/batch/batch_workers.h"
#include "eyelet/pooling.h"

/* An input that gets one vector: a text, an image, or both. */
struct embed_input {
    const char *text; /* [n_text], or NULL */
    size_t n_text;
    const char *image;       /* its file or URL, or NULL */
    const char *instruction; /* NULL for the embedder's */
};

struct embedder {
    struct cli_engine *cli;  /* borrowed; its model computes the vectors */
    int dimensions;          /* 0 for all */
    const char *instruction; /* NULL for the model's own */
};

/* The vector that the engine or a server computed for an item of a batch. Borrowed from the item.
 */
struct embedded {
    const float *number; /* [n], or NULL if there is none */
    size_t n;
    int prompt_tokens;
};
struct embedded embedded_of(const struct batch_item *item);

/* Loads the model. Fails if it is not an embedding model. */
bool embedder_load(struct embedder *embedder, ey_err *e);
/* Writes the length of the loaded model's vectors to *n. A server does not report the length, so it
 * is asked for a vector. */
bool embedder_dimensions(const struct embedder *embedder, int *n, ey_err *e);
/* Reads the input's image and computes the input's vector, which embedded_of(item) returns. Any
 * thread may call it. Ctrl-C cancels it. */
void embedder_run(const struct embedder *embedder, const struct embed_input *input,
                  struct batch_item *item);
/* Returns how many of n inputs should run at the same time. */
int embedder_at_once(const struct embedder *embedder, size_t n);
/* Runs the work's n inputs, several at the same time. Sets work->n_threads. */
bool embedder_run_all(const struct embedder *embedder, struct batch_work *work, ey_err *e);

#endif
