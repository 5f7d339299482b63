/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the command, prints help, and reports invalid calls. */
#include "cli/commands/command.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mapped_files.h"
#include "cli/commands/command_table.h"
#include "cli/options/did_you_mean.h"
#include "cli/terminal/term.h"
#include "eyelet/engine.h"

/* Names that other programs have for our commands. */
static const char *const other_names[][2] = {
    {"describe", "scene"}, {"ocr", "read"},    {"remove", "rm"},     {"delete", "rm"},
    {"ls", "list"},        {"models", "list"}, {"download", "pull"}, {"server", "serve"},
};

static const struct command *find_command(const char *name)
{
    const struct command *c;
    for (size_t i = 0; i < sizeof(other_names) / sizeof(other_names[0]); i++)
        if (strcmp(name, other_names[i][0]) == 0) name = other_names[i][1];
    for (size_t i = 0; (c = command_at(i)); i++)
        if (strcmp(c->name, name) == 0) return c;
    return NULL;
}

/* ---- help ---- */

struct command_group {
    const char *title;
    unsigned commands;
};

static const struct command_group groups[] = {
    {"Ask about images", ASK | CAPTION | SCENE | READ | DETECT | EXTRACT | CHAT},
    {"Find images", SEARCH | EMBED},
    {"Serve", SERVE},
    {"Models", PULL | LIST | RM | PLAN | QUANTIZE | CONVERT},
    {"This machine", DOCTOR | BENCH | TOKENIZE},
};

static void print_group(FILE *out, const struct command_group *group)
{
    const struct command *c;
    fprintf(out, "%s\n", group->title);
    for (size_t i = 0; (c = command_at(i)); i++)
        if (c->bit & group->commands)
            fprintf(out, "  eyelet %-8s %-20s %s\n", c->name, c->arguments, c->summary);
}

static void print_overview(FILE *out)
{
    fprintf(out, "eyelet %s: images and text in, text out, with Qwen3-VL models\n\n", ey_version());
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
        print_group(out, &groups[i]);
    fprintf(out, "\n  eyelet %-8s %-20s %s\n", "help", "[COMMAND]",
            "this text, or a command's options");
    fprintf(out,
            "\nThe model is --model, else $EYELET_MODEL, else the largest Qwen3-VL in the Hugging\n"
            "Face cache, else the demo that comes with the program. `eyelet pull` downloads one.\n"
            "Answers go to standard output, everything else to standard error.\n"
            "Exit status: 0 done, 1 failed, 2 invalid call, 130 interrupted.\n");
}

static void print_command(FILE *out, const struct command *c)
{
    fprintf(out, "eyelet %s%s%s: %s\n\n%s\nOptions:\n", c->name, c->arguments[0] ? " " : "",
            c->arguments, c->summary, c->text);
    options_print(out, c->bit, terminal_columns(STDOUT_FILENO));
}

static int print_help(const struct command *c)
{
    struct term out = term_stdout();
    if (c)
        print_command(stdout, c);
    else
        print_overview(stdout);
    return term_finish(&out, 0);
}

static int print_version(void)
{
    struct term out = term_stdout();
    printf("eyelet %s\n", ey_version());
    return term_finish(&out, 0);
}

/* ---- invalid calls ---- */

static int report_invalid_call(const ey_err *e, const char *command)
{
    fprintf(stderr, "eyelet: %s\n", e->text);
    if (e->code == EY_BAD_REQUEST)
        fprintf(stderr, "Try: eyelet help%s%s\n", command ? " " : "", command ? command : "");
    return ey_code_exit_status(e->code);
}

/* Returns a hint for a command that other programs have and eyelet does not, or NULL. */
static const char *hint_for(const char *name)
{
    static const char *const hints[][2] = {
        {"run", "eyelet chat holds a conversation, eyelet ask asks one question; both take --model "
                "NAME"},
        {"ps", "eyelet doctor lists the programs that use GPU memory; curl "
               "localhost:8000/v1/models lists the models of a running server"},
        {"show", "eyelet plan NAME shows the memory that a model needs, eyelet list shows the "
                 "models in the cache"},
        {"stop", "Ctrl-C or SIGTERM ends eyelet serve"},
        {"create", "eyelet quantize MODEL OUT writes a smaller checkpoint"},
        {"push", "eyelet does not upload models"},
        {"completion", "make install installs completions for bash, zsh and fish"},
        {"completions", "make install installs completions for bash, zsh and fish"},
        {"man", "eyelet help COMMAND prints the same text; make install installs the manual page"},
        {"batch", "eyelet caption, read and ask --each take many images and folders"},
    };
    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
        if (strcmp(name, hints[i][0]) == 0) return hints[i][1];
    return NULL;
}

static int unknown_command(const char *name)
{
    ey_err e;
    const char *hint = hint_for(name);
    struct did_you_mean suggestion = did_you_mean_start(name, strlen(name));
    const struct command *c;
    for (size_t i = 0; (c = command_at(i)); i++)
        did_you_mean_add(&suggestion, c->name);
    did_you_mean_add(&suggestion, "help");
    if (name[0] == '-')
        ey_fail(
            &e, EY_BAD_REQUEST,
            "\"%s\" is not a command; options go after the command: eyelet ask photo.jpg \"What "
            "is this?\" --json",
            name);
    else if (path_is_file(name))
        ey_fail(&e, EY_BAD_REQUEST,
                "\"%s\" is not a command; to ask about that image: eyelet ask %s \"What is this?\"",
                name, name);
    else if (hint)
        ey_fail(&e, EY_BAD_REQUEST, "there is no command \"%s\"; %s", name, hint);
    else if (suggestion.best &&
             strcmp(suggestion.best, "rm") != 0) /* rm deletes, so it is never suggested */
        ey_fail(&e, EY_BAD_REQUEST, "there is no command \"%s\"; did you mean %s?", name,
                suggestion.best);
    else
        ey_fail(&e, EY_BAD_REQUEST, "there is no command \"%s\"", name);
    return report_invalid_call(&e, NULL);
}

/* ---- dispatch ---- */

static int run_command(const struct command *c, int argc, char **argv)
{
    ey_err e;
    struct options options;
    int status;
    if (!options_parse(&options, c->bit, argc, argv, &e) || !options_hide_keys(&options, &e))
        status = report_invalid_call(&e, c->name);
    else if (options.help)
        status = print_help(c);
    else
        status = c->run(&options);
    options_free(&options);
    return status;
}

static int help(int argc, char **argv)
{
    const struct command *c = argc > 0 ? find_command(argv[0]) : NULL;
    if (argc > 0 && !c && strcmp(argv[0], "help") != 0) return unknown_command(argv[0]);
    return print_help(c);
}

static bool is_any(const char *text, const char *a, const char *b, const char *c)
{
    return strcmp(text, a) == 0 || strcmp(text, b) == 0 || strcmp(text, c) == 0;
}

int cli_run(int argc, char **argv)
{
    file_open_standard();
    mapped_files_watch();
    signal(SIGPIPE, SIG_IGN); /* writing to a closed pipe fails with EPIPE instead */
    if (argc < 2) {
        print_overview(stderr);
        return 2;
    }
    if (is_any(argv[1], "help", "--help", "-h")) return help(argc - 2, argv + 2);
    if (is_any(argv[1], "version", "--version", "-V")) return print_version();
    const struct command *c = find_command(argv[1]);
    return c ? run_command(c, argc - 2, argv + 2) : unknown_command(argv[1]);
}
