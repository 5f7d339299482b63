/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the person at the terminal. */
#ifndef EY_CLI_CONFIRM_H
#define EY_CLI_CONFIRM_H

#include <stdbool.h>

/* Somebody can be asked: standard input and standard error are terminals. */
bool confirm_possible(void);
/* Prints the question with " [y/N] "; whether the answer is yes. */
bool confirm(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
