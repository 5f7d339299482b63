/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet chat [IMAGE...] holds a conversation with a message per line. On a terminal it shows a
 * prompt and opens a line editor; lines of a pipe are read as they are. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/chat/chat.h"
#include "cli/commands/commands.h"
#include "cli/input_document.h"
#include "cli/terminal/cancel.h"

/* ---- lines ---- */

/* Empties c->line, also after a line that was too long. */
static void chat_begin_line(struct chat *c)
{
    buf_free(&c->line);
    c->line = buf_with_max(EY_MAX_LINE_BYTES + 1);
    buf_add(&c->line, "", 0);
}

/* Reads the next line into c->line, without its end. A line that is too long is skipped and sets
 * *too_long. Returns false at the end of input, or after Ctrl-C (cancel_requested()). */
static bool chat_read_line(struct chat *c, bool *too_long)
{
    int byte;
    size_t n = 0;
    chat_begin_line(c);
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

static const char text_mark[] = "\"\"\"";

/* Reads the rest of a text that begins with """, up to the line that ends with """, and removes the
 * marks. Returns false at the end of input or after Ctrl-C. */
static bool read_marked_text(struct chat *c)
{
    const size_t mark = strlen(text_mark);
    while (!c->line.failed) {
        bool closed = c->line.size >= 2 * mark &&
                      memcmp(c->line.data + c->line.size - mark, text_mark, mark) == 0;
        if (closed) break;
        buf_add_text(&c->line, "\n");
        if (!line_editor_read(c->editor, ". ", &c->line)) return false;
    }
    if (c->line.failed) return true;
    memmove(c->line.data, c->line.data + mark, c->line.size - 2 * mark);
    c->line.size -= 2 * mark;
    c->line.data[c->line.size] = 0;
    return true;
}

static bool chat_edit_line(struct chat *c, bool *too_long)
{
    chat_begin_line(c);
    bool got = line_editor_read(c->editor, "> ", &c->line);
    if (got && !c->line.failed && strncmp(c->line.data, text_mark, strlen(text_mark)) == 0)
        got = read_marked_text(c);
    *too_long = c->line.failed;
    if (got && !*too_long && c->line.data[strspn(c->line.data, " \t\n")])
        line_editor_remember(c->editor, c->line.data);
    return got;
}

/* Reads a line with a prompt. Ctrl-C starts a new line. */
static bool read_typed_line(struct chat *c, bool *too_long)
{
    bool got = false;
    if (!c->interactive) return chat_read_line(c, too_long);
    do {
        cancel_reset();
        if (!c->editor) fputs("> ", stderr);
        cancel_watch_reading();
        got = c->editor ? chat_edit_line(c, too_long) : chat_read_line(c, too_long);
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
        ey_fail(&e, EY_BAD_REQUEST, "the line is longer than %d bytes", EY_MAX_LINE_BYTES);
        chat_complain(c, &e);
    } else if (memchr(line, 0, c->line.size)) {
        ey_fail(&e, EY_BAD_REQUEST, "the line has a NUL byte in it");
        chat_complain(c, &e);
    } else if (line[0] == '/')
        chat_run_slash_command(c, line);
    else if (line[strspn(line, " \t\n")])
        chat_send(c, line, c->line.size);
}

/* ---- the command ---- */

static bool chat_check_arguments(const struct options *o, ey_err *e)
{
    if (o->n_args > EY_MAX_IMAGES)
        return ey_fail(e, EY_BAD_REQUEST,
                       "%zu images are too many; a conversation takes at most %d", o->n_args,
                       EY_MAX_IMAGES);
    for (size_t i = 0; i < o->n_args; i++)
        if (strcmp(o->args[i], "-") == 0)
            return ey_fail(e, EY_BAD_REQUEST,
                           "chat reads messages from standard input, so an image must be a file");
    return (!o->system || input_check_text(o->system, strlen(o->system), "--system", e)) &&
           input_check_pages(o, e) && input_check_images(o->args, o->n_args, "chat", e);
}

static bool chat_begin(struct chat *c, const struct options *o, ey_err *e)
{
    struct chat_images added;
    if (!conversation_open(&c->conversation, e) ||
        (o->system && !conversation_set_system(&c->conversation, o->system, e)))
        return false;
    for (size_t i = 0; i < o->n_args; i++)
        if (!chat_add_image(c, o->args[i], &added, e)) return false;
    return cli_engine_load(&c->cli, e);
}

static void greet(const struct chat *c)
{
    struct buf name = buf_with_max(4 * EY_MAX_PATH);
    if (!c->interactive || c->cli.options->quiet) return;
    term_add_name(&name, c->cli.model);
    fprintf(stderr, "%s. /help lists the commands, Ctrl-D leaves.\n", name.data ? name.data : "");
    buf_free(&name);
}

static void open_line_editor(struct chat *c)
{
    char history[EY_MAX_PATH];
    if (!c->interactive) return;
    bool kept = !c->options.no_history && line_history_path(history);
    c->editor = line_editor_open(kept ? history : NULL);
}

static int chat_loop(struct chat *c)
{
    bool too_long;
    open_line_editor(c);
    greet(c);
    while (!c->leaving && !c->cli.out.closed && (c->interactive || !cancel_requested()) &&
           read_typed_line(c, &too_long))
        chat_handle_line(c, too_long);
    line_editor_close(c->editor);
    if (c->interactive) return term_finish(&c->cli.out, 0);
    return term_finish(&c->cli.out, cancel_requested() ? EXIT_INTERRUPTED : c->failed ? 1 : 0);
}

int cmd_chat(const struct options *o)
{
    ey_err e;
    struct chat c = {.options = *o, .interactive = isatty(STDIN_FILENO)};
    if (!chat_check_arguments(o, &e)) return term_complain(&e);
    cli_engine_init(&c.cli, &c.options);
    c.cli.max_images = EY_MAX_IMAGES;
    int status = chat_begin(&c, o, &e) ? chat_loop(&c) : term_complain(&e);
    cli_engine_close(&c.cli);
    conversation_close(&c.conversation);
    arena_free(&c.memory);
    buf_free(&c.line);
    free(c.saved);
    return status;
}
