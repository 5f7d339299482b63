/* SPDX-License-Identifier: Apache-2.0 */
/* How many threads this process should compute with, and turns for those that compute long. */
#ifndef EY_BASE_PROCESSORS_H
#define EY_BASE_PROCESSORS_H

/* Physical cores that this process may use: those of the processors that its affinity names, each
 * once however many threads the core has, and no more than the time that the quotas of its control
 * groups give, rounded up. 1 .. EY_MAX_THREADS. */
int processors_usable(void);
/* The same of n processors, with /proc and /sys in the folder `root` ("" for the system's own). */
int processors_usable_in(const char *root, const int *processor, int n);

/* Threads of requests that compute for long take turns, as many at once as there are cores, in the
 * order in which they come: what is short need not wait among hundreds. Nothing else is waited for
 * between the two. */
void compute_turn_take(void);
void compute_turn_give(void);

#endif
