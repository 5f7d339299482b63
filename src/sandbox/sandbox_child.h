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
    int ends_unread;    /* messages about the end of earlier workers that may still come */
    const void *client; /* whom it then works for, or NULL */
    struct sandbox_child *next;
};

/* ---- sandbox_spawn.c ---- */

/* Starts a child and waits a few seconds until it is ready. The kernel kills it when the calling
 * thread exits. */
struct sandbox_child *sandbox_child_start(ey_err *e);
/* Kills the child and its worker if they are still alive, and frees it. */
void sandbox_child_end(struct sandbox_child *child);

/* ---- sandbox_pool.c ---- */

/* Borrows an idle child for this thread's client, waiting until `deadline` (seconds_now()). Returns
 * NULL with a message if there is none by then. Programs, which may run for a minute, get about
 * half of the children, so that images do not wait for documents. One client's jobs get all
 * children but one, and its programs all their places but one; the next child goes to the waiting
 * client with the fewest jobs. */
struct sandbox_child *pool_borrow_child(bool for_program, const struct sandbox_limits *limits,
                                        double deadline, ey_err *e);
/* Gives a borrowed child back. It is killed unless `idle`: ready for the next job. */
void pool_return_child(struct sandbox_child *child, bool idle);

#endif
