/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C while an answer is generated: the first one ends the answer, the second the program. */
#ifndef EY_CLI_CANCEL_H
#define EY_CLI_CANCEL_H

#include <stdbool.h>

enum { EXIT_INTERRUPTED = 130 }; /* 128 + SIGINT, as in shells */

/* Watches Ctrl-C until cancel_unwatch(), which restores the earlier handler. */
void cancel_watch(void);
/* Watches Ctrl-C while a line is typed: each one makes reading fail with EINTR. */
void cancel_watch_reading(void);
void cancel_unwatch(void);
bool cancel_requested(void);
/* Clears the request, so that cancel_requested() returns false again. */
void cancel_reset(void);

#endif
