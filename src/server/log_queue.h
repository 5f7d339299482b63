/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded queue of lines to a descriptor. Its own thread writes them, so that a stalled reader
 * blocks only that thread. Lines that do not fit are dropped and counted. */
#ifndef EY_SERVER_LOG_QUEUE_H
#define EY_SERVER_LOG_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

struct log_queue;

/* Opens a queue that writes to `fd`, which it borrows. Returns NULL if out of memory or threads. */
struct log_queue *log_queue_open(int fd, size_t capacity);
/* Adds a line with its newline, or drops it. Never blocks on the descriptor. */
void log_queue_add(struct log_queue *queue, const char *line, size_t n);
/* Waits up to `seconds` until all lines are written, ends the thread and frees the queue. If the
 * descriptor still blocks, returns false and leaks thread and queue. */
bool log_queue_close(struct log_queue *queue, double seconds);

#endif
