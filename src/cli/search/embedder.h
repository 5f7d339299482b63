/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of texts and images, for the commands that make them. */
#ifndef EY_CLI_EMBEDDER_H
#define EY_CLI_EMBEDDER_H

#include "cli/batch/batch_workers.h"
#include "eyelet/pooling.h"

/* What gets one vector: a text, an image, or both. */
struct embed_input {
    const char *text; /* [n_text]; NULL: none */
    size_t n_text;
    const char *image;       /* its file or address; NULL: none */
    const char *instruction; /* NULL: the embedder's */
};

struct embedder {
    struct cli_engine *cli;  /* whose model embeds */
    int dimensions;          /* 0: all */
    const char *instruction; /* NULL: the model's own */
};

/* Loads the model and sees that it embeds. */
bool embedder_load(struct embedder *embedder, ey_err *e);
/* Reads the input's image and makes the vector, which item->answer has; by any number of threads.
 * Ctrl-C ends it. */
void embedder_run(const struct embedder *embedder, const struct embed_input *input,
                  struct batch_item *item);
/* Inputs that run side by side. */
int embedder_at_once(const struct embedder *embedder, size_t n);
/* The same for each of work->n inputs, several at once; sets work->n_threads. */
bool embedder_run_all(const struct embedder *embedder, struct batch_work *work, ey_err *e);

#endif
