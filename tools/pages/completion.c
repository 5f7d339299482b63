/* SPDX-License-Identifier: Apache-2.0 */
/* Writes completions for three shells. Each offers commands, the options of a command, and the
 * values of options and arguments. */
#include <string.h>

#include "pages.h"

/* The command that lists the models of the cache. Each shell gets a function with it. */
#define MODEL_NAMES                                                                 \
    "eyelet list --json --quiet 2>/dev/null | tr '{' '\\n' | sed -n 's/^\"name\": " \
    "\"\\([^\"]*\\)\".*/\\1/p'"

static void add_choices(FILE *out, const char *choices)
{
    for (; *choices; choices++)
        fputc(*choices == '|' ? ' ' : *choices, out);
}

static bool takes(const struct option_info *option, const struct command *command)
{
    return (option->commands & command->bit) != 0;
}

/* ---- bash ---- */

static void add_bash_words(FILE *out, enum completed_by by, const char *choices)
{
    if (by == BY_MODELS)
        fputs("_eyelet_models", out);
    else if (by == BY_FILES)
        fputs("_eyelet_files", out);
    else if (by == BY_DIRECTORIES)
        fputs("_eyelet_directories", out);
    else if (by == BY_CHOICES) {
        fputs("_eyelet_words '", out);
        add_choices(out, choices);
        fputs("'", out);
    } else
        fputs(":", out);
}

static void add_bash_command(FILE *out, const struct command *c)
{
    struct option_info option;
    fprintf(out, "    %s)\n        case $previous in\n", c->name);
    for (size_t i = 0; option_info(&option, i); i++) {
        if (!takes(&option, c) || !option.value) continue;
        fprintf(out, "        --%s) ", option.name);
        add_bash_words(out, option_completed_by(&option), option.value);
        fputs("; return ;;\n", out);
    }
    fputs("        esac\n        if [[ $current == -* ]]; then\n            _eyelet_words '", out);
    for (size_t i = 0; option_info(&option, i); i++)
        if (takes(&option, c)) fprintf(out, "--%s ", option.name);
    fputs("'\n        else\n            ", out);
    add_bash_words(out, arguments_completed_by(c), NULL);
    fputs("\n        fi\n        ;;\n", out);
}

void write_bash_completion(FILE *out)
{
    fputs("# eyelet's completion in bash, made from its option table\n"
          "_eyelet_words() { COMPREPLY=($(compgen -W \"$1\" -- \"$current\")); }\n"
          "_eyelet_files() { compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f "
          "-- \"$current\"); }\n"
          "_eyelet_directories() { compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < "
          "<(compgen -d -- \"$current\"); }\n"
          "_eyelet_models() {\n    _eyelet_directories\n"
          "    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W \"demo $(" MODEL_NAMES
          ")\" -- \"$current\")\n}\n"
          "_eyelet() {\n    local current=${COMP_WORDS[COMP_CWORD]} "
          "previous=${COMP_WORDS[COMP_CWORD - 1]}\n    COMPREPLY=()\n"
          "    if [[ $current == = ]]; then current=; elif [[ $previous == = ]]; then "
          "previous=${COMP_WORDS[COMP_CWORD - 2]}; fi\n"
          "    if ((COMP_CWORD == 1)) || [[ $COMP_CWORD == 2 && ${COMP_WORDS[1]} == help ]]; "
          "then\n        _eyelet_words '",
          out);
    for (size_t i = 0; command_at(i); i++)
        fprintf(out, "%s ", command_at(i)->name);
    fputs("help version'\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n", out);
    for (size_t i = 0; command_at(i); i++)
        add_bash_command(out, command_at(i));
    fputs("    esac\n}\ncomplete -F _eyelet eyelet\n", out);
}

/* ---- zsh ---- */

/* Escapes text for a spec of _arguments, inside […] or between colons; the spec itself is in '…'.
 */
static void add_zsh_text(FILE *out, const char *text)
{
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", out);
        else if (strchr("[]:\\", *text))
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
}

static void add_zsh_action(FILE *out, enum completed_by by, const char *choices)
{
    if (by == BY_MODELS)
        fputs("_eyelet_models", out);
    else if (by == BY_FILES)
        fputs("_files", out);
    else if (by == BY_DIRECTORIES)
        fputs("_files -/", out);
    else if (by == BY_CHOICES) {
        fputs("(", out);
        add_choices(out, choices);
        fputs(")", out);
    } else
        fputs(" ", out);
}

static void add_zsh_command(FILE *out, const struct command *c)
{
    struct option_info option;
    fprintf(out, "    %s)\n        _arguments", c->name);
    for (size_t i = 0; option_info(&option, i); i++) {
        if (!takes(&option, c)) continue;
        fprintf(out, " \\\n            '%s--%s%s[", option.is_repeated ? "*" : "", option.name,
                option.value ? "=" : "");
        add_zsh_text(out, option.help);
        fputs("]", out);
        if (option.value) {
            fputs(option.is_optional ? "::" : ":", out);
            add_zsh_text(out, option.value);
            fputs(":", out);
            add_zsh_action(out, option_completed_by(&option), option.value);
        }
        fputs("'", out);
    }
    if (arguments_completed_by(c) != BY_NOTHING) {
        fputs(" \\\n            '*:", out);
        add_zsh_text(out, c->arguments);
        fputs(":", out);
        add_zsh_action(out, arguments_completed_by(c), NULL);
        fputs("'", out);
    }
    fputs("\n        ;;\n", out);
}

void write_zsh_completion(FILE *out)
{
    fputs("#compdef eyelet\n# eyelet's completion in zsh, made from its option table\n"
          "_eyelet_models() {\n    local -a names\n    names=(demo ${(f)\"$(" MODEL_NAMES ")\"})\n"
          "    _alternative 'models:model:compadd -a names' 'directories:directory:_files -/'\n}\n"
          "_eyelet() {\n    local -a commands\n    commands=(",
          out);
    for (size_t i = 0; command_at(i); i++) {
        fprintf(out, "\n        '%s:", command_at(i)->name);
        add_zsh_text(out, command_at(i)->summary);
        fputs("'", out);
    }
    fputs("\n        'help:this text, or the options of a command' 'version:the version'\n    )\n"
          "    if ((CURRENT == 2)) || [[ $CURRENT == 3 && $words[2] == help ]]; then\n        "
          "_describe command commands\n        return\n    fi\n"
          "    local command=$words[2]\n    shift words\n    ((CURRENT--))\n    case $command in\n",
          out);
    for (size_t i = 0; command_at(i); i++)
        add_zsh_command(out, command_at(i));
    fputs("    esac\n}\n_eyelet \"$@\"\n", out);
}

/* ---- fish ---- */

static void add_fish_text(FILE *out, const char *text)
{
    for (; *text; text++)
        fprintf(out, *text == '\'' || *text == '\\' ? "\\%c" : "%c", *text);
}

static void add_fish_values(FILE *out, enum completed_by by, const char *choices)
{
    if (by == BY_CHOICES) {
        fputs(" -a '", out);
        add_choices(out, choices);
        fputs("'", out);
    } else if (by == BY_MODELS)
        fputs(" -a '(__eyelet_models)'", out);
    else if (by == BY_FILES)
        fputs(" -F", out);
    else if (by == BY_DIRECTORIES)
        fputs(" -a '(__fish_complete_directories)'", out);
}

static void add_fish_command(FILE *out, const struct command *c)
{
    struct option_info option;
    for (size_t i = 0; option_info(&option, i); i++) {
        if (!takes(&option, c)) continue;
        fprintf(out, "complete -c eyelet -n '__fish_seen_subcommand_from %s' -l %s", c->name,
                option.name);
        if (option.value && !option.is_optional)
            fputs(option_completed_by(&option) == BY_FILES ? " -r" : " -x", out);
        if (option.value) add_fish_values(out, option_completed_by(&option), option.value);
        fputs(" -d '", out);
        add_fish_text(out, option.help);
        fputs("'\n", out);
    }
    enum completed_by by = arguments_completed_by(c);
    if (by == BY_NOTHING) return;
    fprintf(out, "complete -c eyelet -n '__fish_seen_subcommand_from %s'", c->name);
    add_fish_values(out, by, NULL);
    fputs("\n", out);
}

void write_fish_completion(FILE *out)
{
    fputs("# eyelet's completion in fish, made from its option table\n"
          "function __eyelet_models\n    echo demo\n    " MODEL_NAMES
          "\n    __fish_complete_directories\nend\n"
          "complete -c eyelet -f\n",
          out);
    for (size_t i = 0; command_at(i); i++) {
        fprintf(out, "complete -c eyelet -n __fish_use_subcommand -a %s -d '", command_at(i)->name);
        add_fish_text(out, command_at(i)->summary);
        fputs("'\n", out);
    }
    fputs("complete -c eyelet -n __fish_use_subcommand -a 'help version'\n", out);
    for (size_t i = 0; command_at(i); i++)
        add_fish_command(out, command_at(i));
}
