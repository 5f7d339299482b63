/* SPDX-License-Identifier: Apache-2.0 */
/* The number of compute threads to use, and a fair semaphore for requests that compute for long. */
#ifndef EY_BASE_PROCESSORS_H
#define EY_BASE_PROCESSORS_H

#include "base/err.h"

/* Returns the number of physical cores that this process may use: those of its CPU affinity, hyper-
 * threads not counted, capped by its cgroups' CPU quota rounded up. 1 to EY_MAX_THREADS. */
int processors_usable(void);
/* The same for n given processors, with /proc and /sys below `root` ("" for the real ones). */
int processors_usable_in(const char *root, const int *processor, int n);

/* Waits for a turn before a long computation on a request's thread. At most as many run as there
 * are cores, so that short requests are not slowed by hundreds of long ones. The client with the
 * fewest waiters is next, its oldest waiter first. The holder must not block before it gives the
 * turn back. Fails with EY_CANCELLED if the client has hung up. */
bool compute_turn_take(ey_err *e);
void compute_turn_give(void);
/* Sets the client that this thread takes turns for, and a callback that tells whether it has hung
 * up (NULL: it never does). */
void compute_turns_for(const void *client, bool (*gone)(void *user), void *user);

#endif
