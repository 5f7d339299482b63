/* SPDX-License-Identifier: Apache-2.0 */
/* The state that eyelet chat's loop, messages and slash commands share. */
#ifndef EY_CLI_CHAT_H
#define EY_CLI_CHAT_H

#include "cli/chat/conversation.h"
#include "cli/cli_engine.h"
#include "cli/options/options.h"
#include "cli/terminal/line_editor.h"

struct chat {
    struct cli_engine cli;
    struct options options; /* a copy that /set changes; its lists and arguments are borrowed */
    struct conversation conversation;
    struct arena memory; /* owns the values that /set was given */
    struct buf line;
    struct line_editor *editor; /* NULL if lines are read without an editor */
    char *saved;                /* the file of the last /save, which the next one may overwrite */
    bool interactive;           /* input comes from a user at a terminal */
    bool leaving;
    bool failed; /* a line failed, which the exit status reports to scripts */
};

/* Prints the error on standard error and sets `failed`. */
void chat_complain(struct chat *c, const ey_err *e);

/* The images or pages that chat_add_image has added. */
struct chat_images {
    size_t n;
    int width, height; /* of the last one, upright */
};

/* Adds the image, or all pages of a document, to the next message. Decodes them first, to report
 * bad images immediately. */
bool chat_add_image(struct chat *c, const char *path, struct chat_images *added, ey_err *e);

/* Sends the text with the draft's images and prints the answer. */
void chat_send(struct chat *c, const char *text, size_t n);
/* Asks the last question again with another seed. */
void chat_send_again(struct chat *c);

/* Runs a line that begins with a slash. */
void chat_run_slash_command(struct chat *c, const char *line);

#endif
