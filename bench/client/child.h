/* SPDX-License-Identifier: Apache-2.0 */
/* A server as a child process: start, watch, stop. */
#ifndef EY_BENCH_CHILD_H
#define EY_BENCH_CHILD_H

#include <sys/types.h>

#include "base/err.h"

struct child {
    pid_t pid;    /* 0: not running */
    int log;      /* an unnamed file with its standard output and error */
    char url[64]; /* "http://127.0.0.1:40123" */
};

/* Starts argv[0] and waits for its line "eyelet ready on http://…". */
bool child_start(struct child *c, const char *const *argv, double seconds, ey_err *e);
bool child_is_alive(struct child *c);
/* Terminates the server and waits. Returns its exit status, or -1 if it had to be killed or died of
 * a signal. Does nothing if it is not running. */
int child_stop(struct child *c, double seconds);
/* Memory in bytes: resident, the part of it that no file backs, and the peak of resident memory. */
struct child_memory {
    int64_t resident, anonymous, peak;
};
struct child_memory child_memory(const struct child *c);
/* Prints the end of its log on standard error. */
void child_print_log(const struct child *c);

#endif
