/* SPDX-License-Identifier: Apache-2.0 */
/* Asks about several images at the same time and delivers the answers in order. */
#ifndef EY_CLI_BATCH_WORKERS_H
#define EY_CLI_BATCH_WORKERS_H

#include "cli/batch/joined_answer.h"
#include "cli/cli_engine.h"
#include "cli/input_document.h"

/* One image or document of a batch, from the question until the answer is printed. */
struct batch_item {
    struct input_document document;
    struct input_images pages;   /* of the question; empty if there is a question for each page */
    struct input image;          /* the first of `pages`, but named like the document; borrowed */
    size_t n_pages;              /* pages that the answer is about */
    struct joined_answer joined; /* owns what `answer` points to, if it was joined from several */
    ey_answer answer;
    struct remote_vector vector; /* if a server's model embeds the image */
    ey_err error;
    bool ok;
};

void batch_item_free(struct batch_item *item);

struct batch_work {
    size_t n;      /* images */
    int n_threads; /* images at the same time */
    void *user;    /* passed to both functions */
    /* Asks about image i and fills *item, on any thread. */
    void (*ask)(void *user, size_t i, struct batch_item *item);
    /* Receives the answer about image i, in order and on the caller's thread. Returns false to
     * stop. */
    bool (*take)(void *user, size_t i, struct batch_item *item);
};

/* Runs until take() has received all images or returns false. Frees all items. */
bool batch_work_run(const struct batch_work *work, ey_err *e);

#endif
