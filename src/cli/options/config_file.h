/* SPDX-License-Identifier: Apache-2.0 */
/* --config FILE: options in YAML, in vLLM's format. */
#ifndef EY_CLI_CONFIG_FILE_H
#define EY_CLI_CONFIG_FILE_H

#include "cli/options/options.h"

/* Sets options from the file o->config, except those that the command line has set. Keys are names
 * of long options. A list gives an option several times, and a map becomes JSON. Errors name the
 * file and the line. */
bool config_file_apply(struct options *o, enum command_bit command, ey_err *e);

#endif
