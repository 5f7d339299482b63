/* SPDX-License-Identifier: Apache-2.0 */
/* The commands: what main() calls, and what each command's file gives. */
#ifndef EY_CLI_COMMAND_H
#define EY_CLI_COMMAND_H

#include "cli/options/options.h"

/* Runs the program; returns its exit status: 0 done, 1 it failed, 2 the call is wrong, 130
 * interrupted. */
int cli_run(int argc, char **argv);

/* A command as its help, the manual and completions tell of it. */
struct command {
    const char *name;
    enum command_bit bit;
    int (*run)(const struct options *options);
    const char *arguments, *summary, *text; /* text: what help says between summary and options */
};
/* In the order of the overview; NULL: there are no more. */
const struct command *command_at(size_t i);
/* The command of a bit, as it is typed. */
const char *command_name(unsigned command);

int cmd_ask(const struct options *options);
int cmd_caption(const struct options *options);
int cmd_extract(const struct options *options);
int cmd_scene(const struct options *options);
int cmd_read(const struct options *options);
int cmd_detect(const struct options *options);
int cmd_chat(const struct options *options);
int cmd_plan(const struct options *options);
int cmd_quantize(const struct options *options);
int cmd_serve(const struct options *options);
int cmd_bench(const struct options *options);
int cmd_tokenize(const struct options *options);
int cmd_list(const struct options *options);
int cmd_pull(const struct options *options);
int cmd_rm(const struct options *options);
int cmd_doctor(const struct options *options);

#endif
