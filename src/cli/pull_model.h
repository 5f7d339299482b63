/* SPDX-License-Identifier: Apache-2.0 */
/* Downloading models, as a command and as an offer when one is missing. */
#ifndef EY_CLI_PULLING_H
#define EY_CLI_PULLING_H

#include "checkpoint/hf_cache.h"
#include "cli/options/options.h"

/* Says what will come and whether it will run here, asks when it will not (--yes: goes on),
 * downloads. Writes the snapshot's folder to out[EY_MAX_PATH]; with --dry-run that stays empty. */
bool pull_model(char *out, const struct repository *repository, const struct options *o, ey_err *e);

/* A model that a command is about to open: when it is a repository's name that is not in the cache,
 * the person at the terminal is asked whether to pull it; --yes pulls without asking. True: it is
 * here, or its opening tells what is wrong. */
bool pull_model_if_missing(const char *model, const struct options *o, ey_err *e);

#endif
