/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lines from a terminal by libedit, with cursor keys, history, search, and pasted text of
 * several lines. */
#ifndef EY_CLI_LINE_EDITOR_H
#define EY_CLI_LINE_EDITOR_H

#include "base/buf.h"

struct line_editor;

/* Opens an editor. Returns NULL if standard input or standard error is not a terminal, or if memory
 * runs out: the caller then reads lines without an editor. `history` is the file that keeps typed
 * lines, or NULL for none. */
struct line_editor *line_editor_open(const char *history);
void line_editor_close(struct line_editor *l);

/* Reads a line into *out, without its end. Pasted lines and those broken by Alt-Enter count as one.
 * Returns false at the end of input (Ctrl-D), or with errno EINTR if a signal came. */
bool line_editor_read(struct line_editor *l, const char *prompt, struct buf *out);
/* Adds the line to the history of this run and of later ones. */
void line_editor_remember(struct line_editor *l, const char *line);

/* Writes the path of the history to out[EY_MAX_PATH] and creates its folder. The path is
 * $XDG_STATE_HOME/eyelet/chat-history, by default ~/.local/state/eyelet/chat-history. Returns false
 * if neither variable is set or the path is too long. */
bool line_history_path(char *out);

#endif
