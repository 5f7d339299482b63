/* SPDX-License-Identifier: Apache-2.0 */
/* The repository that pull and rm work on. */
#ifndef EY_CLI_REPOSITORY_OPTION_H
#define EY_CLI_REPOSITORY_OPTION_H

#include "checkpoint/hf_cache.h"
#include "cli/options/options.h"

/* Parses the only argument, owner/name or owner/name@revision, together with --revision. */
bool repository_option(struct repository *out, const struct options *o, const char *command,
                       ey_err *e);

#endif
