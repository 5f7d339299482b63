/* SPDX-License-Identifier: Apache-2.0 */
/* Several images asked about at once, answers in their order. */
#ifndef EY_CLI_BATCH_WORKERS_H
#define EY_CLI_BATCH_WORKERS_H

#include "cli/cli_engine.h"

/* An image between being asked about and being printed. */
struct batch_item {
    struct input image;
    ey_answer answer;
    ey_err error;
    bool ok;
};

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
