/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that a person types, by libedit: cursor keys, history, search, pasted text of several
 * lines. */
#ifndef EY_CLI_LINE_EDITOR_H
#define EY_CLI_LINE_EDITOR_H

#include "base/buf.h"

struct line_editor;

/* NULL where standard input or standard error is no terminal, or memory is short: lines are then
 * read as they come. `history` names the file that keeps what was typed, NULL: none does. */
struct line_editor *line_editor_open(const char *history);
void line_editor_close(struct line_editor *l);

/* Reads a line without its end into *out. Pasted lines, and ones that Alt-Enter broke, are one.
 * False: the end of input (Ctrl-D), or a signal came (errno is EINTR). */
bool line_editor_read(struct line_editor *l, const char *prompt, struct buf *out);
/* What the up key brings back, in this run and the next ones. */
void line_editor_remember(struct line_editor *l, const char *line);

/* $XDG_STATE_HOME/eyelet/chat-history, or the same below ~/.local/state, in `out` of EY_MAX_PATH
 * bytes; its folder is made. False: there is no place for it. */
bool line_history_path(char *out);

#endif
