/* SPDX-License-Identifier: Apache-2.0 */
/* The slash commands of a conversation. */
#include <stdlib.h>
#include <string.h>

#include "cli/chat/chat.h"
#include "cli/options/did_you_mean.h"

/* ---- paths ---- */

/* Returns a typed or pasted path without surrounding blanks and quotes, and with ~/ expanded. The
 * caller frees it. Returns NULL if it is empty or memory runs out. */
static char *typed_path(const char *text)
{
    const char *home = getenv("HOME");
    char *path = NULL;
    size_t n = strlen(text);
    while (n && text[n - 1] == ' ')
        n--;
    if (n > 1 && (text[0] == '\'' || text[0] == '"') && text[n - 1] == text[0]) {
        text++;
        n -= 2;
    }
    if (!n) return NULL;
    bool at_home = home && n > 1 && text[0] == '~' && text[1] == '/';
    if (asprintf(&path, "%s%.*s", at_home ? home : "", (int)(at_home ? n - 1 : n),
                 at_home ? text + 1 : text) < 0)
        return NULL;
    return path;
}

static void print_named(const char *path, const char *rest)
{
    struct buf name = buf_with_max(4 * EY_MAX_PATH);
    term_add_name(&name, path);
    fprintf(stderr, "%s%s\n", name.data ? name.data : "", rest);
    buf_free(&name);
}

/* ---- commands ---- */

static void chat_image_command(struct chat *c, const char *argument)
{
    ey_err e;
    struct chat_images added = {0};
    char *path = typed_path(argument);
    bool ok = path && strcmp(path, "-") != 0;
    if (!ok) ey_fail(&e, EY_BAD_REQUEST, "/image needs the path of an image: /image photo.jpg");
    ok = ok && chat_add_image(c, path, &added, &e);
    if (!ok) chat_complain(c, &e);
    if (ok && c->interactive) {
        char size[80];
        if (added.n > 1)
            snprintf(size, sizeof(size), ", %zu pages, are sent with the next message", added.n);
        else
            snprintf(size, sizeof(size), ", %d x %d, is sent with the next message", added.width,
                     added.height);
        print_named(path, size);
    }
    free(path);
}

static void chat_retry_command(struct chat *c, const char *argument)
{
    (void)argument;
    chat_send_again(c);
}

static void chat_system_command(struct chat *c, const char *argument)
{
    ey_err e;
    const char *now = conversation_system(&c->conversation);
    if (!argument[0]) {
        fprintf(stderr, "%s\n", now ? now : "there is no system prompt; /system TEXT sets one");
        return;
    }
    const bool drops = strcmp(argument, "-") == 0;
    bool ok = input_check_text(argument, strlen(argument), "the system prompt", &e) &&
              conversation_set_system(&c->conversation, drops ? NULL : argument, &e);
    if (!ok) chat_complain(c, &e);
    if (ok && c->interactive) fprintf(stderr, drops ? "no system prompt\n" : "system prompt set\n");
}

/* The options that may change between two answers. */
static const char *const settings[] = {
    "temperature",       "top-p", "top-k",      "min-p",  "repetition-penalty", "presence-penalty",
    "frequency-penalty", "seed",  "max-tokens", "detail", "thinking",
};
enum { N_SETTINGS = sizeof(settings) / sizeof(settings[0]) };

static void print_settings(const struct chat *c)
{
    char value[256];
    for (size_t i = 0; i < N_SETTINGS; i++) {
        options_value(value, &c->options, CHAT, settings[i]);
        if (strcmp(settings[i], "seed") == 0)
            snprintf(value, sizeof(value), "%llu", (unsigned long long)c->cli.seed);
        fprintf(stderr, "%-18s %s\n", settings[i], value[0] ? value : "as the model recommends");
    }
}

/* Returns the setting of this name, in which _ may stand for -. Fails if there is none. */
static const char *find_setting(const char *typed, size_t n, ey_err *e)
{
    char name[64];
    snprintf(name, sizeof(name), "%.*s", (int)(n < sizeof(name) ? n : sizeof(name) - 1), typed);
    for (char *at = name; *at; at++)
        if (*at == '_') *at = '-';
    struct did_you_mean suggestion = did_you_mean_start(name, strlen(name));
    for (size_t i = 0; i < N_SETTINGS; i++) {
        if (strcmp(settings[i], name) == 0) return settings[i];
        did_you_mean_add(&suggestion, settings[i]);
    }
    ey_fail(e, EY_BAD_REQUEST, "there is no setting %s; %s%s", name,
            suggestion.best ? "did you mean " : "/set lists the settings",
            suggestion.best ? suggestion.best : "");
    return NULL;
}

static bool change_setting(struct chat *c, const char *argument, ey_err *e)
{
    size_t n = strcspn(argument, " \t=");
    const char *name = find_setting(argument, n, e), *text = argument + n;
    if (!name) return false;
    text += strspn(text, " \t=");
    size_t length = strlen(text);
    while (length && text[length - 1] == ' ')
        length--;
    char *value = arena_copy_text(&c->memory, text, length);
    if (!value) return ey_fail_memory(e, "the setting", length);
    if (!options_set(&c->options, CHAT, name, value, e)) return false;
    if (c->options.seed >= 0 && strcmp(name, "seed") == 0) c->cli.seed = (uint64_t)c->options.seed;
    if (c->interactive) fprintf(stderr, "%s is %s\n", name, value);
    return true;
}

static void chat_set_command(struct chat *c, const char *argument)
{
    ey_err e;
    if (!argument[0])
        print_settings(c);
    else if (!change_setting(c, argument, &e))
        chat_complain(c, &e);
}

static void chat_save_command(struct chat *c, const char *argument)
{
    ey_err e;
    char *path = typed_path(argument);
    bool again = path && c->saved && strcmp(path, c->saved) == 0, ok = path != NULL;
    if (!ok)
        ey_fail(&e, EY_BAD_REQUEST,
                "/save needs a file: /save talk.md, or talk.json for the API's messages");
    ok = ok && conversation_save(&c->conversation, path, again, &e);
    if (!ok) {
        chat_complain(c, &e);
        free(path);
        return;
    }
    if (c->interactive) print_named(path, " is written");
    free(c->saved);
    c->saved = path;
}

static void clear_all(struct chat *c, const char *argument)
{
    (void)argument;
    conversation_clear(&c->conversation);
    if (c->interactive)
        fprintf(stderr, "the conversation is empty now%s\n",
                c->conversation.has_system ? "; the system prompt stays" : "");
}

static void leave(struct chat *c, const char *argument)
{
    (void)argument;
    c->leaving = true;
}

static void print_slash_commands(struct chat *c, const char *argument);

static const struct slash_command {
    const char *name;
    void (*run)(struct chat *c, const char *argument);
    const char *help;
} slash_commands[] = {
    {"/image", chat_image_command, "/image PATH      an image for the next message"},
    {"/retry", chat_retry_command, "/retry           another answer to the last message"},
    {"/system", chat_system_command,
     "/system TEXT     set the system prompt; /system shows it, /system - removes it"},
    {"/set", chat_set_command,
     "/set NAME VALUE  change temperature, max-tokens and so on; /set lists all settings"},
    {"/save", chat_save_command,
     "/save FILE       write the conversation as Markdown; FILE.json: as the API's messages"},
    {"/clear", clear_all, "/clear           start over without messages and images"},
    {"/help", print_slash_commands, "/help            print this list"},
    {"/quit", leave, "/quit            leave, as Ctrl-D does"},
};
enum { N_SLASH_COMMANDS = sizeof(slash_commands) / sizeof(slash_commands[0]) };

static void print_slash_commands(struct chat *c, const char *argument)
{
    (void)argument;
    for (size_t i = 0; i < N_SLASH_COMMANDS; i++)
        fprintf(stderr, "%s\n", slash_commands[i].help);
    fprintf(stderr, "Ctrl-C stops an answer. Put a blank before a message that begins with /.\n");
    if (c->interactive)
        fprintf(stderr,
                "Alt-Enter begins a new line, \"\"\" begins and ends a text of several lines; "
                "Up and Ctrl-R bring back earlier lines, Tab completes paths.\n");
}

void chat_run_slash_command(struct chat *c, const char *line)
{
    ey_err e;
    size_t n = strcspn(line, " \t\n");
    struct did_you_mean suggestion = did_you_mean_start(line, n);
    for (size_t i = 0; i < N_SLASH_COMMANDS; i++) {
        const struct slash_command *command = &slash_commands[i];
        if (strlen(command->name) == n && memcmp(command->name, line, n) == 0)
            return command->run(c, line + n + strspn(line + n, " \t\n"));
        did_you_mean_add(&suggestion, command->name);
    }
    ey_fail(&e, EY_BAD_REQUEST, "there is no command %.*s; %s%s", (int)(n < 40 ? n : 40), line,
            suggestion.best ? "did you mean " : "/help lists the commands",
            suggestion.best ? suggestion.best : "");
    chat_complain(c, &e);
}
