/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands with their names, functions and help. Help, manual pages and completions
 * are made from it. */
#ifndef EY_CLI_COMMANDS_COMMAND_TABLE_H
#define EY_CLI_COMMANDS_COMMAND_TABLE_H

#include "cli/options/options.h"

struct command {
    const char *name;
    enum command_bit bit;
    int (*run)(const struct options *options); /* returns the exit status */
    const char *arguments;
    const char *summary;
    const char *text; /* printed by help between the summary and the options */
};

/* Returns command i in the order of the overview, or NULL past the last one. */
const struct command *command_at(size_t i);

#endif
