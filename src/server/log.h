/* SPDX-License-Identifier: Apache-2.0 */
/* The server's log: timestamped lines on standard error, written by a thread and dropped if nobody
 * reads them (log_queue.h). */
#ifndef EY_SERVER_LOG_H
#define EY_SERVER_LOG_H

#include <stdbool.h>
#include <stddef.h>

/* Starts the writer thread. Before that, callers write their lines themselves. */
void log_start(void);
/* Stops the thread, with a second to write the last lines. */
void log_stop(void);
/* Reopens the file that standard error was at the start, after a log rotation. Returns false if it
 * is not a file or cannot be opened. */
bool log_reopen(void);

void log_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Logs a finished request. `whole` is false if the client left or was disconnected. Status 0 means
 * no reply was sent, method NULL that the request was incomplete or malformed. */
void log_access(const char *peer, const char *method, const char *path, int status, double seconds,
                bool whole);
/* Logs the beginning of a request's body, with control characters escaped. */
void log_body(const char *path, const char *body, size_t n);

#endif
