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
    const char *instruction; /* NULL: the embedder's */
};

struct embedder {
    struct cli_engine *cli;  /* its model makes the vectors */
    int dimensions;          /* 0 for all */
    const char *instruction; /* NULL: the model's own */
};

/* The vector in a batch's item, of the engine or of a server. It lives as long as the item. */
struct embedded {
    const float *number; /* [n]; NULL: there is none */
    size_t n;
    int prompt_tokens;
};
struct embedded embedded_of(const struct batch_item *item);

/* Loads the model. Fails if it is not an embedding model. */
bool embedder_load(struct embedder *embedder, ey_err *e);
/* Writes how many numbers the loaded model's vectors have to *n. Asks a server for a vector to
 * count them. */
bool embedder_dimensions(const struct embedder *embedder, int *n, ey_err *e);
/* Reads the input's image and computes its vector into item->answer. Thread-safe; Ctrl-C cancels
 * it. */
void embedder_run(const struct embedder *embedder, const struct embed_input *input,
                  struct batch_item *item);
/* Returns how many of n inputs should run at the same time. */
int embedder_at_once(const struct embedder *embedder, size_t n);
/* Runs the work's n inputs, several at the same time. Sets work->n_threads. */
bool embedder_run_all(const struct embedder *embedder, struct batch_work *work, ey_err *e);

#endif
