/* SPDX-License-Identifier: Apache-2.0 */
/* Lines on their way to a descriptor. A thread of its own writes them, so that a reader that does
 * not read stops that thread and nobody else; lines that find no room are dropped and counted. */
#ifndef EY_SERVER_LOG_QUEUE_H
#define EY_SERVER_LOG_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

struct log_queue;

/* Lines go to `fd`, which stays the caller's; NULL: no memory or no thread. */
struct log_queue *log_queue_open(int fd, size_t capacity);
/* Takes a line with its end, or drops it; never waits for the descriptor. */
void log_queue_add(struct log_queue *queue, const char *line, size_t n);
/* Waits for at most so many seconds until all is written, then ends the thread and frees the queue.
 * False: the descriptor takes nothing, and thread and queue remain with it. */
bool log_queue_close(struct log_queue *queue, double seconds);

#endif
