/* SPDX-License-Identifier: Apache-2.0 */
/* The repository that pull and rm are about. */
#ifndef EY_CLI_REPOSITORY_OPTION_H
#define EY_CLI_REPOSITORY_OPTION_H

#include "checkpoint/hf_cache.h"
#include "cli/options/options.h"

/* Out of the one argument, owner/name or owner/name@revision, and --revision. */
bool repository_option(struct repository *out, const struct options *o, const char *command,
                       ey_err *e);

#endif
