/* SPDX-License-Identifier: Apache-2.0 */
/* The commands, each in a file of its own. A command takes its parsed options and returns the exit
 * status. */
#ifndef EY_CLI_COMMANDS_COMMANDS_H
#define EY_CLI_COMMANDS_COMMANDS_H

#include "cli/options/options.h"

int cmd_ask(const struct options *options);
int cmd_bench(const struct options *options);
int cmd_caption(const struct options *options);
int cmd_chat(const struct options *options);
int cmd_detect(const struct options *options);
int cmd_embed(const struct options *options);
int cmd_doctor(const struct options *options);
int cmd_extract(const struct options *options);
int cmd_list(const struct options *options);
int cmd_plan(const struct options *options);
int cmd_pull(const struct options *options);
int cmd_convert(const struct options *options);
int cmd_quantize(const struct options *options);
int cmd_read(const struct options *options);
int cmd_rm(const struct options *options);
int cmd_scene(const struct options *options);
int cmd_search(const struct options *options);
int cmd_serve(const struct options *options);
int cmd_tokenize(const struct options *options);

#endif
