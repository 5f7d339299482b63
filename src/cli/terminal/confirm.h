/* SPDX-License-Identifier: Apache-2.0 */
/* Yes-or-no questions to the user at the terminal. */
#ifndef EY_CLI_CONFIRM_H
#define EY_CLI_CONFIRM_H

#include <stdbool.h>

/* Returns whether a user can be asked, that is, standard input and standard error are terminals. */
bool confirm_possible(void);
/* Prints the question with " [y/N] " and returns whether the answer is yes. */
bool confirm(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
