/* SPDX-License-Identifier: Apache-2.0 */
/* The server's log: whole lines on standard error, with the time before them. They are written by a
 * thread, and dropped where nobody reads (log_queue.h). */
#ifndef EY_SERVER_LOG_H
#define EY_SERVER_LOG_H

#include <stdbool.h>
#include <stddef.h>

/* From here on lines are written by the thread; before, by who logs. */
void log_start(void);
/* Gives what was said last a second to be read. */
void log_stop(void);
/* Opens the file that standard error was at the start again, as after it was renamed. False: it is
 * no file, or cannot be opened. */
bool log_reopen(void);

void log_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A request that is over; not `whole`: the client left, or was cut. Status 0: it got no answer;
 * method NULL: nor did it come whole, or well-formed. */
void log_access(const char *peer, const char *method, const char *path, int status, double seconds,
                bool whole);
/* The beginning of a request's body, control characters made visible. */
void log_body(const char *path, const char *body, size_t n);

#endif
