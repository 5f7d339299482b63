/* SPDX-License-Identifier: Apache-2.0 */
/* Children (eyelet-decode processes): starting, killing, and borrowing one for a job. */
#ifndef EY_SANDBOX_CHILD_H
#define EY_SANDBOX_CHILD_H

#include <stdatomic.h>
#include <sys/types.h>

#include "sandbox/sandbox.h"

struct sandbox_child {
    pid_t pid;
    int socket;
    atomic_bool killed; /* by sandbox_kill_all, while a job waits for the child */
    bool runs_program;  /* while it is borrowed */
    int ends_unread;    /* reports that earlier workers have ended, not received yet */
    const void *client; /* the client of the job while it is borrowed, or NULL */
    struct sandbox_child *next;
};

/* ---- sandbox_spawn.c ---- */

/* Starts a child and waits up to 10 seconds until it is ready. The kernel kills it when the calling
 * thread exits. */
struct sandbox_child *sandbox_child_start(ey_err *e);
/* Kills the child and its worker if they are still alive, and frees it. */
void sandbox_child_end(struct sandbox_child *child);

/* ---- sandbox_pool.c ---- */

/* Borrows an idle child for this thread's client. Waits until `deadline` (seconds_now()), and
 * returns NULL with a message if none is idle by then. Programs, which may run for a minute, get at
 * most about half of the children, so that images do not wait for documents. One client gets at
 * most all children but one, and at most all but one of those for programs. The next child goes to
 * the waiting client with the fewest jobs. */
struct sandbox_child *pool_borrow_child(bool for_program, const struct sandbox_limits *limits,
                                        double deadline, ey_err *e);
/* Gives a borrowed child back. `idle` means that it is ready for the next job; else it is killed.
 */
void pool_return_child(struct sandbox_child *child, bool idle);

#endif
