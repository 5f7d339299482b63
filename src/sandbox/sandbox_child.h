/* SPDX-License-Identifier: Apache-2.0 */
/* Children: eyelet-decode started, killed, and lent for one job at a time. */
#ifndef EY_SANDBOX_CHILD_H
#define EY_SANDBOX_CHILD_H

#include <sys/types.h>

#include "sandbox/sandbox.h"

struct sandbox_child {
    pid_t pid;
    int socket;
    bool killed;
    struct sandbox_child *next;
};

/* ---- sandbox_spawn.c ---- */

/* Starts one and waits until it is ready, for a few seconds. It dies with the calling thread. */
struct sandbox_child *sandbox_child_start(ey_err *e);
/* Kills it with its worker, if it still lives, and frees it. */
void sandbox_child_end(struct sandbox_child *child);

/* ---- sandbox_pool.c ---- */

/* A child that waits for a job, by `deadline` (seconds_now()); NULL with a message. */
struct sandbox_child *pool_borrow_child(const struct sandbox_limits *limits, double deadline,
                                        ey_err *e);
/* Gives it back; `idle`: it waits for the next job, otherwise it is ended. */
void pool_return_child(struct sandbox_child *child, bool idle);

#endif
