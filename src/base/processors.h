/* SPDX-License-Identifier: Apache-2.0 */
/* How many threads this process should compute with, and turns for those that compute long. */
#ifndef EY_BASE_PROCESSORS_H
#define EY_BASE_PROCESSORS_H

#include "base/err.h"

/* Physical cores that this process may use: those of the processors that its affinity names, each
 * once however many threads the core has, and no more than the time that the quotas of its control
 * groups give, rounded up. 1 .. EY_MAX_THREADS. */
int processors_usable(void);
/* The same of n processors, with /proc and /sys in the folder `root` ("" for the system's own). */
int processors_usable_in(const char *root, const int *processor, int n);

/* Threads of requests that compute for long take turns, as many at once as there are cores: what is
 * short need not wait among hundreds. Next is who has come first of the client with fewest that
 * wait. Nothing else is waited for between taking and giving. False: EY_CANCELLED, the client has
 * left. */
bool compute_turn_take(ey_err *e);
void compute_turn_give(void);
/* Whose turns this thread takes from here on, and what tells that nobody needs them; NULL: always
 * somebody does. */
void compute_turns_for(const void *client, bool (*gone)(void *user), void *user);

#endif
