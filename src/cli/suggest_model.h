/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the official model that suits this machine best, and explains why. */
#ifndef EY_CLI_SUGGEST_MODEL_H
#define EY_CLI_SUGGEST_MODEL_H

#include "base/limits.h"
#include "cli/options/options.h"

/* Plans each official Instruct model in FP8 and prints to standard error whether it fits. Writes
 * the best repository to out[EY_MAX_PATH]: on a GPU the largest with a context of 8,192 tokens or
 * more; on a CPU the smallest, because reading the weights takes most of the time of a token. Fails
 * if no model runs here. */
bool suggest_model(char *out, const struct options *o, ey_err *e);

#endif
