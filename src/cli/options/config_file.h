/* SPDX-License-Identifier: Apache-2.0 */
/* --config FILE: options in YAML, as vLLM takes them. */
#ifndef EY_CLI_CONFIG_FILE_H
#define EY_CLI_CONFIG_FILE_H

#include "cli/options/options.h"

/* Sets what the file of o->config says, but not what the command line said already. Keys are names
 * of long options; a list is an option that is given several times, a map becomes JSON. Errors name
 * file and line. */
bool config_file_apply(struct options *o, enum command_bit command, ey_err *e);

#endif
