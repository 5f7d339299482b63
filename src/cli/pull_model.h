/* SPDX-License-Identifier: Apache-2.0 */
/* Downloads models, for the command pull and when another command's model is missing. */
#ifndef EY_CLI_PULL_MODEL_H
#define EY_CLI_PULL_MODEL_H

#include "checkpoint/hf_cache.h"
#include "cli/options/options.h"

/* Prints what will be downloaded and whether it will run here, then downloads it. If it will not
 * run, asks the user first, unless --yes is given. Writes the snapshot's folder to
 * out[EY_MAX_PATH], or "" with --dry-run. */
bool pull_model(char *out, const struct repository *repository, const struct options *o, ey_err *e);

/* Called before a command opens `model`. If that is the name of a repository that is not in the
 * cache, asks the user whether to download it; --yes downloads without asking. Returns true if the
 * model is here, or if opening it will report what is wrong. */
bool pull_model_if_missing(const char *model, const struct options *o, ey_err *e);

#endif
