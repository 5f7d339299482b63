/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet chat [IMAGE...]: a conversation, a line a message. On a terminal with a prompt; from a
 * pipe the same without. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/cancel.h"
#include "cli/command.h"
#include "cli/conversation.h"
#include "cli/nearest.h"
#include "cli/session.h"
#include "image/image.h"

struct chat {
    struct session session;
    struct conversation talk;
    struct buf line;
    bool prompts; /* someone types */
    bool leaving;
    bool failed; /* a line, of which a script must hear */
};

/* What is said to the person goes to standard error: answers stay alone on standard output. */
static void complain(struct chat *c, const ey_err *e)
{
    progress_clear(&c->session.progress);
    fprintf(stderr, "eyelet: %s%s\n", e->text,
            e->code == EY_TOO_LONG ? "; /clear begins anew" : "");
    c->failed = true;
}

/* ---- pictures ---- */

/* Decoded once to see that it can be, before anything is said about it. */
static bool add_picture(struct chat *c, const char *path, struct image *seen, ey_err *e)
{
    struct input picture = {0};
    bool ok = input_read(&picture, path, EY_MAX_IMAGE_BYTES, e) &&
              image_decode(seen, picture.bytes, picture.size, path, e) &&
              conversation_add_picture(&c->talk, session_picture(&c->session, &picture), e);
    if (ok) picture.bytes = NULL; /* the conversation's now */
    input_free(&picture);
    image_free(seen);
    return ok;
}

static bool add_first_pictures(struct chat *c, const struct options *o, ey_err *e)
{
    for (size_t i = 0; i < o->n_args; i++)
        if (!add_picture(c, o->args[i], &(struct image){0}, e)) return false;
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

static void take_picture(struct chat *c, const char *argument)
{
    ey_err e;
    struct image seen = {0};
    struct buf name = buf_with_max(4 * EY_MAX_PATH);
    char *path = typed_path(argument);
    bool ok = path && strcmp(path, "-") != 0;
    if (!ok) ey_fail(&e, EY_BAD_REQUEST, "/image needs the path of a picture: /image photo.jpg");
    ok = ok && add_picture(c, path, &seen, &e);
    if (!ok) complain(c, &e);
    if (ok) term_add_name(&name, path);
    if (ok && c->prompts)
        fprintf(stderr, "%s, %d x %d, goes with the next message\n", name.data ? name.data : "",
                seen.width, seen.height);
    buf_free(&name);
    free(path);
}

/* ---- commands ---- */

static void clear_all(struct chat *c, const char *argument)
{
    (void)argument;
    conversation_clear(&c->talk);
    if (c->prompts) fprintf(stderr, "all forgotten\n");
}

static void leave(struct chat *c, const char *argument)
{
    (void)argument;
    c->leaving = true;
}

static void explain(struct chat *c, const char *argument);

static const struct slash_command {
    const char *name;
    void (*run)(struct chat *c, const char *argument);
    const char *help;
} slash_commands[] = {
    {"/image", take_picture, "/image PATH   a picture for the next message"},
    {"/clear", clear_all, "/clear        forget all that was said and shown"},
    {"/help", explain, "/help         this"},
    {"/quit", leave, "/quit         leave, as Ctrl-D does"},
};
enum { N_SLASH_COMMANDS = sizeof(slash_commands) / sizeof(slash_commands[0]) };

static void explain(struct chat *c, const char *argument)
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
    struct nearest nearest = nearest_start(line, n);
    for (size_t i = 0; i < N_SLASH_COMMANDS; i++) {
        const struct slash_command *command = &slash_commands[i];
        if (strlen(command->name) == n && memcmp(command->name, line, n) == 0)
            return command->run(c, line + n + strspn(line + n, " \t"));
        nearest_offer(&nearest, command->name);
    }
    ey_fail(&e, EY_BAD_REQUEST, "there is no command %.*s; %s%s", (int)(n < 40 ? n : 40), line,
            nearest.best ? "did you mean " : "/help lists them", nearest.best ? nearest.best : "");
    complain(c, &e);
}

/* ---- messages ---- */

/* The engine may stop before the model does. */
static void say_why_it_ended(const struct chat *c, const ey_answer *answer)
{
    int context = session_context(&c->session);
    if (strcmp(answer->finish_reason, "length") != 0 || c->session.options->quiet) return;
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
    if (cancel_asked() && !answer->n_text) {
        conversation_take_back(&c->talk, true);
        if (c->prompts) fprintf(stderr, "stopped before it began: the message is taken back\n");
        return true;
    }
    if (!conversation_answer(&c->talk, answer->text, answer->n_text, e))
        return conversation_take_back(&c->talk, false), false;
    return true;
}

static bool put(struct chat *c, ey_answer *answer, ey_err *e)
{
    struct session *s = &c->session;
    struct listener listener = {s, true};
    ey_request request = session_request(s, c->talk.message, c->talk.n, false, &listener);
    bool ok = session_put(s, &request, NULL, answer, e);
    progress_clear(&s->progress);
    return ok;
}

static void send_message(struct chat *c, const char *text, size_t n)
{
    ey_err e;
    ey_answer answer = {0};
    bool ok = input_check_text(text, n, "the message", &e) &&
              conversation_say(&c->talk, text, n, &e);
    if (ok && !put(c, &answer, &e)) {
        conversation_take_back(&c->talk, false);
        ok = false;
    }
    if (ok) {
        if (!answer.n_text || answer.text[answer.n_text - 1] != '\n')
            term_write(&c->session.out, "\n", 1);
        say_why_it_ended(c, &answer);
        ok = keep_answer(c, &answer, &e);
    }
    if (!ok) complain(c, &e);
    ey_answer_free(&answer);
}

/* ---- lines ---- */

/* The next line without its end, in c->line; one that is too long is read to its end and refused.
 * False: no more lines, or Ctrl-C, which cancel_asked() tells. */
static bool read_line(struct chat *c, bool *too_long)
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
    if (!c->prompts) return read_line(c, too_long);
    do {
        cancel_forget();
        fputs("> ", stderr);
        cancel_watch_reading();
        got = read_line(c, too_long);
        cancel_unwatch();
        if (!got) fputc('\n', stderr);
    } while (!got && cancel_asked());
    cancel_forget();
    return got;
}

static void take_line(struct chat *c, bool too_long)
{
    ey_err e;
    const char *line = c->line.data;
    if (too_long) {
        ey_fail(&e, EY_BAD_REQUEST, "a line longer than %d bytes", EY_MAX_LINE_BYTES);
        complain(c, &e);
    } else if (memchr(line, 0, c->line.size)) {
        ey_fail(&e, EY_BAD_REQUEST, "the line has a NUL byte in it");
        complain(c, &e);
    } else if (line[0] == '/')
        run_slash_command(c, line);
    else if (line[strspn(line, " \t")])
        send_message(c, line, c->line.size);
}

/* ---- the command ---- */

static bool check_call(const struct options *o, ey_err *e)
{
    if (o->n_args > EY_MAX_IMAGES)
        return ey_fail(e, EY_BAD_REQUEST, "%zu pictures; at most %d go in one conversation",
                       o->n_args, EY_MAX_IMAGES);
    for (size_t i = 0; i < o->n_args; i++)
        if (strcmp(o->args[i], "-") == 0)
            return ey_fail(e, EY_BAD_REQUEST,
                           "standard input is where messages come from; a picture needs a file");
    return input_check_pictures(o->args, o->n_args, "chat", e);
}

static void greet(const struct chat *c)
{
    struct buf name = buf_with_max(4 * EY_MAX_PATH);
    if (!c->prompts || c->session.options->quiet) return;
    term_add_name(&name, c->session.model);
    fprintf(stderr, "%s. Ctrl-D leaves, /help\n", name.data ? name.data : "");
    buf_free(&name);
}

static int talk(struct chat *c)
{
    bool too_long;
    greet(c);
    while (!c->leaving && !c->session.out.closed && (c->prompts || !cancel_asked()) &&
           read_typed_line(c, &too_long))
        take_line(c, too_long);
    if (c->prompts) return term_finish(&c->session.out, 0);
    return term_finish(&c->session.out, cancel_asked() ? EXIT_INTERRUPTED : c->failed ? 1 : 0);
}

int cmd_chat(const struct options *o)
{
    ey_err e;
    struct chat c = {.line = buf_with_max(EY_MAX_LINE_BYTES + 1), .prompts = isatty(STDIN_FILENO)};
    if (!check_call(o, &e)) return term_complain(&e);
    session_open(&c.session, o);
    c.session.max_images = EY_MAX_IMAGES;
    bool ok = conversation_open(&c.talk, &e) && add_first_pictures(&c, o, &e) &&
              session_load(&c.session, &e);
    int status = ok ? talk(&c) : term_complain(&e);
    session_close(&c.session);
    conversation_close(&c.talk);
    buf_free(&c.line);
    return status;
}
