/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet chat [IMAGE...]: a conversation, a line a message. On a terminal with a prompt; from a
 * pipe the same without. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/terminal/cancel.h"
#include "cli/commands/commands.h"
#include "cli/commands/conversation.h"
#include "cli/options/did_you_mean.h"
#include "cli/cli_engine.h"
#include "image/image.h"

struct chat {
    struct cli_engine cli;
    struct conversation conversation;
    struct buf line;
    bool interactive; /* someone types */
    bool leaving;
    bool failed; /* a line, of which a script must hear */
};

/* What is said to the person goes to standard error: answers stay alone on standard output. */
static void chat_complain(struct chat *c, const ey_err *e)
{
    progress_clear(&c->cli.progress);
    fprintf(stderr, "eyelet: %s%s\n", e->text,
            e->code == EY_TOO_LONG ? "; /clear begins anew" : "");
    c->failed = true;
}

/* ---- images ---- */

/* Decoded once to see that it can be, before anything is said about it. */
static bool chat_add_image(struct chat *c, const char *path, struct image *seen, ey_err *e)
{
    struct input image = {0};
    bool ok = input_read(&image, path, EY_MAX_IMAGE_BYTES, e) &&
              image_decode(seen, image.bytes, image.size, path, e) &&
              conversation_add_image(&c->conversation, cli_engine_image_part(&c->cli, &image), e);
    if (ok) image.bytes = NULL; /* the conversation's now */
    input_free(&image);
    image_free(seen);
    return ok;
}

static bool chat_add_first_images(struct chat *c, const struct options *o, ey_err *e)
{
    for (size_t i = 0; i < o->n_args; i++)
        if (!chat_add_image(c, o->args[i], &(struct image){0}, e)) return false;
    return true;
}

/* A path as terminals paste and people type it: blanks and a pair of quotes round it go, ~/ is the
 * home. NULL: no memory, or nothing there. The caller frees. */
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

static void chat_image_command(struct chat *c, const char *argument)
{
    ey_err e;
    struct image seen = {0};
    struct buf name = buf_with_max(4 * EY_MAX_PATH);
    char *path = typed_path(argument);
    bool ok = path && strcmp(path, "-") != 0;
    if (!ok) ey_fail(&e, EY_BAD_REQUEST, "/image needs the path of an image: /image photo.jpg");
    ok = ok && chat_add_image(c, path, &seen, &e);
    if (!ok) chat_complain(c, &e);
    if (ok) term_add_name(&name, path);
    if (ok && c->interactive)
        fprintf(stderr, "%s, %d x %d, goes with the next message\n", name.data ? name.data : "",
                seen.width, seen.height);
    buf_free(&name);
    free(path);
}

/* ---- commands ---- */

static void clear_all(struct chat *c, const char *argument)
{
    (void)argument;
    conversation_clear(&c->conversation);
    if (c->interactive) fprintf(stderr, "all forgotten\n");
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
    {"/image", chat_image_command, "/image PATH   an image for the next message"},
    {"/clear", clear_all, "/clear        forget all that was said and shown"},
    {"/help", print_slash_commands, "/help         this"},
    {"/quit", leave, "/quit         leave, as Ctrl-D does"},
};
enum { N_SLASH_COMMANDS = sizeof(slash_commands) / sizeof(slash_commands[0]) };

static void print_slash_commands(struct chat *c, const char *argument)
{
    (void)c;
    (void)argument;
    for (size_t i = 0; i < N_SLASH_COMMANDS; i++)
        fprintf(stderr, "%s\n", slash_commands[i].help);
    fprintf(stderr,
            "Ctrl-C stops an answer. A message that begins with / needs a blank before it.\n");
}

static void run_slash_command(struct chat *c, const char *line)
{
    ey_err e;
    size_t n = strcspn(line, " \t");
    struct did_you_mean suggestion = did_you_mean_start(line, n);
    for (size_t i = 0; i < N_SLASH_COMMANDS; i++) {
        const struct slash_command *command = &slash_commands[i];
        if (strlen(command->name) == n && memcmp(command->name, line, n) == 0)
            return command->run(c, line + n + strspn(line + n, " \t"));
        did_you_mean_add(&suggestion, command->name);
    }
    ey_fail(&e, EY_BAD_REQUEST, "there is no command %.*s; %s%s", (int)(n < 40 ? n : 40), line,
            suggestion.best ? "did you mean " : "/help lists them",
            suggestion.best ? suggestion.best : "");
    chat_complain(c, &e);
}

/* ---- messages ---- */

/* The engine may stop before the model does. */
static void print_stop_reason(const struct chat *c, const ey_answer *answer)
{
    int context = cli_engine_context_length(&c->cli);
    if (answer->finish_reason != EY_FINISH_LENGTH || c->cli.options->quiet) return;
    if (context && answer->prompt_tokens + answer->completion_tokens >= context)
        fprintf(stderr, "eyelet: the context of %d tokens is full; /clear begins anew\n", context);
    else
        fprintf(stderr, "eyelet: the answer was cut after %d tokens; see --max-tokens\n",
                answer->completion_tokens);
}

/* An answer that was stopped stays as far as it came; one that had not begun takes its question
 * with it. */
static bool keep_answer(struct chat *c, const ey_answer *answer, ey_err *e)
{
    if (cancel_requested() && !answer->n_text) {
        conversation_undo(&c->conversation, true);
        if (c->interactive) fprintf(stderr, "stopped before it began: the message is taken back\n");
        return true;
    }
    if (!conversation_answer(&c->conversation, answer->text, answer->n_text, e))
        return conversation_undo(&c->conversation, false), false;
    return true;
}

static bool chat_generate(struct chat *c, ey_answer *answer, ey_err *e)
{
    struct cli_engine *s = &c->cli;
    struct answer_sink sink = {s, true};
    ey_request request = cli_engine_request(s, c->conversation.message, c->conversation.n, false,
                                            &sink);
    bool ok = cli_engine_send(s, &request, NULL, answer, e);
    progress_clear(&s->progress);
    return ok;
}

static void send_message(struct chat *c, const char *text, size_t n)
{
    ey_err e;
    ey_answer answer = {0};
    bool ok = input_check_text(text, n, "the message", &e) &&
              conversation_say(&c->conversation, text, n, &e);
    if (ok && !chat_generate(c, &answer, &e)) {
        conversation_undo(&c->conversation, false);
        ok = false;
    }
    if (ok) {
        if (!answer.n_text || answer.text[answer.n_text - 1] != '\n')
            term_write(&c->cli.out, "\n", 1);
        print_stop_reason(c, &answer);
        ok = keep_answer(c, &answer, &e);
    }
    if (!ok) chat_complain(c, &e);
    ey_answer_free(&answer);
}

/* ---- lines ---- */

/* The next line without its end, in c->line; one that is too long is read to its end and refused.
 * False: no more lines, or Ctrl-C, which cancel_requested() tells. */
static bool chat_read_line(struct chat *c, bool *too_long)
{
    int byte;
    size_t n = 0;
    buf_clear(&c->line);
    *too_long = false;
    buf_add(&c->line, "", 0);
    while ((byte = getc(stdin)) != EOF && byte != '\n') {
        char one = (char)byte;
        n++;
        if (n <= EY_MAX_LINE_BYTES) buf_add(&c->line, &one, 1);
    }
    if (ferror(stdin)) return clearerr(stdin), false;
    *too_long = n > EY_MAX_LINE_BYTES || c->line.failed;
    if (!*too_long && n && c->line.data[c->line.size - 1] == '\r') c->line.data[--c->line.size] = 0;
    return byte != EOF || n;
}

/* With a prompt, where Ctrl-C gives a new one. */
static bool read_typed_line(struct chat *c, bool *too_long)
{
    bool got = false;
    if (!c->interactive) return chat_read_line(c, too_long);
    do {
        cancel_reset();
        fputs("> ", stderr);
        cancel_watch_reading();
        got = chat_read_line(c, too_long);
        cancel_unwatch();
        if (!got) fputc('\n', stderr);
    } while (!got && cancel_requested());
    cancel_reset();
    return got;
}

static void chat_handle_line(struct chat *c, bool too_long)
{
    ey_err e;
    const char *line = c->line.data;
    if (too_long) {
        ey_fail(&e, EY_BAD_REQUEST, "a line longer than %d bytes", EY_MAX_LINE_BYTES);
        chat_complain(c, &e);
    } else if (memchr(line, 0, c->line.size)) {
        ey_fail(&e, EY_BAD_REQUEST, "the line has a NUL byte in it");
        chat_complain(c, &e);
    } else if (line[0] == '/')
        run_slash_command(c, line);
    else if (line[strspn(line, " \t")])
        send_message(c, line, c->line.size);
}

/* ---- the command ---- */

static bool chat_check_arguments(const struct options *o, ey_err *e)
{
    if (o->n_args > EY_MAX_IMAGES)
        return ey_fail(e, EY_BAD_REQUEST, "%zu images; at most %d go in one conversation",
                       o->n_args, EY_MAX_IMAGES);
    for (size_t i = 0; i < o->n_args; i++)
        if (strcmp(o->args[i], "-") == 0)
            return ey_fail(e, EY_BAD_REQUEST,
                           "standard input is where messages come from; an image needs a file");
    return input_check_images(o->args, o->n_args, "chat", e);
}

static void greet(const struct chat *c)
{
    struct buf name = buf_with_max(4 * EY_MAX_PATH);
    if (!c->interactive || c->cli.options->quiet) return;
    term_add_name(&name, c->cli.model);
    fprintf(stderr, "%s. Ctrl-D leaves, /help\n", name.data ? name.data : "");
    buf_free(&name);
}

static int chat_loop(struct chat *c)
{
    bool too_long;
    greet(c);
    while (!c->leaving && !c->cli.out.closed && (c->interactive || !cancel_requested()) &&
           read_typed_line(c, &too_long))
        chat_handle_line(c, too_long);
    if (c->interactive) return term_finish(&c->cli.out, 0);
    return term_finish(&c->cli.out, cancel_requested() ? EXIT_INTERRUPTED : c->failed ? 1 : 0);
}

int cmd_chat(const struct options *o)
{
    ey_err e;
    struct chat c = {.line = buf_with_max(EY_MAX_LINE_BYTES + 1),
                     .interactive = isatty(STDIN_FILENO)};
    if (!chat_check_arguments(o, &e)) return term_complain(&e);
    cli_engine_init(&c.cli, o);
    c.cli.max_images = EY_MAX_IMAGES;
    bool ok = conversation_open(&c.conversation, &e) && chat_add_first_images(&c, o, &e) &&
              cli_engine_load(&c.cli, &e);
    int status = ok ? chat_loop(&c) : term_complain(&e);
    cli_engine_close(&c.cli);
    conversation_close(&c.conversation);
    buf_free(&c.line);
    return status;
}
