/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C while an answer is made: the first ends the answer, a second one the program. */
#ifndef EY_CLI_CANCEL_H
#define EY_CLI_CANCEL_H

#include <stdbool.h>

enum { EXIT_INTERRUPTED = 130 }; /* as shells have it: 128 + SIGINT */

void cancel_watch(void);
/* The same while a line is typed: reading fails with EINTR, however often. */
void cancel_watch_reading(void);
void cancel_unwatch(void);
bool cancel_requested(void);
/* What was asked is done: cancel_requested() is false again. */
void cancel_reset(void);

#endif
