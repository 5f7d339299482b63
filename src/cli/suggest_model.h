/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the official models is the best for this machine, and why. */
#ifndef EY_CLI_SUGGEST_MODEL_H
#define EY_CLI_SUGGEST_MODEL_H

#include "base/limits.h"
#include "cli/options/options.h"

/* Plans each official Instruct model in FP8 and prints to standard error what it would take here.
 * Writes the repository of the best to out[EY_MAX_PATH]: on a GPU the largest that has a context of
 * 8,192 tokens or more; on a CPU, where a token takes as long as the weights take to be read, the
 * smallest. False: none runs here, which *e says. */
bool suggest_model(char *out, const struct options *o, ey_err *e);

#endif
