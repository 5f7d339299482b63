/* SPDX-License-Identifier: Apache-2.0 */
/* pages overview | page COMMAND | commands | bash | zsh | fish | vllm: writes a manual page, the
 * list of commands, a completion or a table to standard output. */
#include "pages.h"

#include <string.h>

enum completed_by option_completed_by(const struct option_info *option)
{
    if (!option->value) return BY_NOTHING;
    if (option->is_choice) return BY_CHOICES;
    if (strcmp(option->name, "model") == 0) return BY_MODELS;
    if (strcmp(option->value, "DIR") == 0) return BY_DIRECTORIES;
    return strstr(option->value, "FILE") || strstr(option->value, "OUT.") ? BY_FILES : BY_NOTHING;
}

enum completed_by arguments_completed_by(const struct command *command)
{
    if (strstr(command->arguments, "MODEL") || strcmp(command->name, "rm") == 0) return BY_MODELS;
    return strstr(command->arguments, "IMAGE") ? BY_FILES : BY_NOTHING;
}

static const struct command *command_named(const char *name)
{
    const struct command *c;
    for (size_t i = 0; (c = command_at(i)); i++)
        if (strcmp(c->name, name) == 0) return c;
    return NULL;
}

static void write_names(FILE *out)
{
    for (size_t i = 0; command_at(i); i++)
        fprintf(out, "%s\n", command_at(i)->name);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*write)(FILE *out);
    } kinds[] = {{"overview", write_overview_page}, {"commands", write_names},
                 {"bash", write_bash_completion},   {"zsh", write_zsh_completion},
                 {"fish", write_fish_completion},   {"vllm", write_vllm_table}};
    const struct command *command = argc == 3 && strcmp(argv[1], "page") == 0
                                        ? command_named(argv[2])
                                        : NULL;
    bool known = command != NULL;
    if (command) write_command_page(stdout, command);
    for (size_t i = 0; argc == 2 && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, argv[1]) != 0) continue;
        kinds[i].write(stdout);
        known = true;
    }
    if (!known)
        fprintf(stderr,
                "usage: pages overview | page COMMAND | commands | bash | zsh | fish | vllm\n");
    return !known ? 2 : fflush(stdout) != 0;
}
