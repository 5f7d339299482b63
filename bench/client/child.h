/* SPDX-License-Identifier: Apache-2.0 */
/* A server of our own: started, watched, stopped. */
#ifndef EY_BENCH_CHILD_H
#define EY_BENCH_CHILD_H

#include <sys/types.h>

#include "base/err.h"

struct child {
    pid_t pid;    /* 0: there is none */
    int log;      /* what it writes to standard error and output: a file without a name */
    char url[64]; /* "http://127.0.0.1:40123" */
};

/* Starts argv[0] and waits for its line "eyelet ready on http://…". */
bool child_start(struct child *c, const char *const *argv, double seconds, ey_err *e);
bool child_is_alive(struct child *c);
/* Tells it to end and waits; its exit status, or -1 where it had to be killed or died of a signal.
 * Takes one that is not there. */
int child_stop(struct child *c, double seconds);
/* Its memory: what is resident, of that what no file backs, and the most that ever was resident.
 * Bytes. */
struct child_memory {
    int64_t resident, anonymous, peak;
};
struct child_memory child_memory(const struct child *c);
/* The end of what it wrote, on standard error. */
void child_print_log(const struct child *c);

#endif
