/* SPDX-License-Identifier: Apache-2.0 */
/* Writes manual pages, completions and tables of the documents from the tables of commands and
 * options with which the program parses. */
#ifndef EY_TOOLS_PAGES_H
#define EY_TOOLS_PAGES_H

#include <stdio.h>

#include "cli/commands/command_table.h"

/* Write the scdoc source of eyelet(1), and of a command's page such as eyelet-ask(1). */
void write_overview_page(FILE *out);
void write_command_page(FILE *out, const struct command *command);

void write_bash_completion(FILE *out);
void write_zsh_completion(FILE *out);
void write_fish_completion(FILE *out);

/* Writes the Markdown table of vLLM's flags that serve ignores. */
void write_vllm_table(FILE *out);

/* How the shell completes a value or an argument; follows from the word that help shows for it. */
enum completed_by { BY_NOTHING, BY_CHOICES, BY_MODELS, BY_FILES, BY_DIRECTORIES };
enum completed_by option_completed_by(const struct option_info *option);
enum completed_by arguments_completed_by(const struct command *command);

#endif
