/* SPDX-License-Identifier: Apache-2.0 */
/* Several images asked about at once, answers in their order. */
#ifndef EY_CLI_BATCH_WORKERS_H
#define EY_CLI_BATCH_WORKERS_H

#include "base/buf.h"
#include "cli/cli_engine.h"
#include "cli/input_document.h"

/* An image, or a document's pages, between being asked about and being printed. */
struct batch_item {
    struct input_document document;
    struct input_images pages; /* that were asked about together; of one by one, the first */
    struct input image;        /* the first page under the document's name; borrowed */
    size_t n_pages;            /* that the answer is about */
    struct buf joined;         /* the text of the answer, where it is put together of several */
    ey_answer answer;
    ey_err error;
    bool ok;
};

void batch_item_free(struct batch_item *item);

struct batch_work {
    size_t n;      /* images */
    int n_threads; /* of them at once, 2 or more */
    void *user;    /* of both functions */
    /* Asks about image i, on some thread. Fills item. */
    void (*ask)(void *user, size_t i, struct batch_item *item);
    /* Takes image i, on the caller's thread, in order. False: stop. */
    bool (*take)(void *user, size_t i, struct batch_item *item);
};

/* Runs until all images are taken or take() stops it; items that were not taken are freed. */
bool batch_work_run(const struct batch_work *work, ey_err *e);

#endif
