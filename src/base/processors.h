/* SPDX-License-Identifier: Apache-2.0 */
/* The number of compute threads to use, the scheduling pace of a thread, and a fair semaphore for
 * long computations of requests. */
#ifndef EY_BASE_PROCESSORS_H
#define EY_BASE_PROCESSORS_H

#include "base/err.h"

/* Returns how many physical cores this process may use, 1 to EY_MAX_THREADS: those of its CPU
 * affinity without hyperthreads, but at most the CPU quota of its cgroups, rounded up. */
int processors_usable(void);
/* Like processors_usable for n given processors, with /proc and /sys below `root` ("" for the real
 * ones). */
int processors_usable_in(const char *root, const int *processor, int n);

enum thread_pace {
    PACE_PLAIN,
    PACE_PROMPT, /* runs as soon as it wakes, for work of a millisecond at most (Linux 6.12) */
    PACE_PATIENT /* gives way to threads that wake, for long computations */
};

/* Sets how soon this thread runs after it wakes; its share of a processor stays the same. Threads
 * and processes that it starts inherit the pace. Does nothing if the user chose a scheduling
 * policy.
 */
void thread_set_pace(enum thread_pace pace);

/* Waits for a turn before a long computation of a request. A thread with a client is PACE_PATIENT
 * until it gives the turn back. At most one turn per core is held at a time, so that hundreds of
 * long computations do not slow short requests. The client with the fewest waiters is next, its
 * oldest waiter first. The holder must not block before it gives the turn back. Fails with
 * EY_CANCELLED if the client has hung up. */
bool compute_turn_take(ey_err *e);
void compute_turn_give(void);
/* Sets the client that this thread takes turns for, and a callback that tells whether it has hung
 * up (NULL: it never does). */
void compute_turns_for(const void *client, bool (*gone)(void *user), void *user);
/* Returns the client that this thread works for, or NULL. */
const void *compute_turns_client(void);

#endif
