/* SPDX-License-Identifier: Apache-2.0 */
/* --thinking, --thinking-end and --loop-guard. */
#ifndef EY_CLI_THINKING_OPTIONS_H
#define EY_CLI_THINKING_OPTIONS_H

#include "cli/options/options.h"
#include "eyelet.h"

/* Returns the value of --thinking. */
ey_thinking option_thinking(const struct options *o);
/* Writes the value of --loop-guard in tokens to *out, or 0 if it is off. */
bool option_loop_tokens(int *out, const struct options *o, ey_err *e);
/* Fails if --thinking-end is not a text that can end a thought. */
bool option_thinking_end_check(const struct options *o, ey_err *e);

#endif
