/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: selects the command, prints help, reports invalid calls. */
#ifndef EY_CLI_COMMANDS_COMMAND_H
#define EY_CLI_COMMANDS_COMMAND_H

/* Runs the program. Returns its exit status: 0 done, 1 failed, 2 invalid call, 130 interrupted. */
int cli_run(int argc, char **argv);

#endif
