/* Ctrl-C while an answer is made: the first ends the answer, a second one the program. */
#ifndef EY_CLI_CANCEL_H
#define EY_CLI_CANCEL_H

#include <stdbool.h>

enum { EXIT_INTERRUPTED = 130 }; /* as shells have it: 128 + SIGINT */

void cancel_watch(void);
void cancel_unwatch(void);
bool cancel_asked(void);

#endif
