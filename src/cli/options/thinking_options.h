/* SPDX-License-Identifier: Apache-2.0 */
/* --thinking and --loop-guard. */
#ifndef EY_CLI_THINKING_OPTIONS_H
#define EY_CLI_THINKING_OPTIONS_H

#include "cli/options/options.h"
#include "eyelet.h"

/* "auto" is AUTO. */
ey_thinking option_thinking(const struct options *o);
/* Tokens of the cautious guard; 0: off. */
bool option_loop_tokens(int *out, const struct options *o, ey_err *e);

#endif
