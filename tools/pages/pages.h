/* SPDX-License-Identifier: Apache-2.0 */
/* Manual pages, completions and tables of the documents, all out of the tables that the program
 * parses by. */
#ifndef EY_TOOLS_PAGES_H
#define EY_TOOLS_PAGES_H

#include <stdio.h>

#include "cli/commands/command_table.h"

/* scdoc's source of eyelet(1), or of a command's page, eyelet-ask(1). */
void write_overview_page(FILE *out);
void write_command_page(FILE *out, const struct command *command);

void write_bash_completion(FILE *out);
void write_zsh_completion(FILE *out);
void write_fish_completion(FILE *out);

/* Flags of vLLM that serve passes over, as a Markdown table. */
void write_vllm_table(FILE *out);

/* What completes a value or an argument, by the word that help shows for it. */
enum completed_by { BY_NOTHING, BY_CHOICES, BY_MODELS, BY_FILES, BY_DIRECTORIES };
enum completed_by option_completed_by(const struct option_info *option);
enum completed_by arguments_completed_by(const struct command *command);

#endif
