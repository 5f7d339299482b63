/* SPDX-License-Identifier: Apache-2.0 */
/* A small image in a terminal: two pixels a character cell, by half blocks in color. */
#ifndef EY_CLI_PREVIEW_H
#define EY_CLI_PREVIEW_H

#include "base/buf.h"

enum preview_colors { PREVIEW_NONE, PREVIEW_256, PREVIEW_TRUE };

/* What this terminal can show, from COLORTERM and TERM; NO_COLOR turns it off. */
enum preview_colors preview_colors(void);
/* Appends the image, at most `columns` wide and `lines` high, with escape sequences; nothing when
 * it cannot be read. */
void preview_add(struct buf *out, const void *bytes, size_t n, int columns, int lines,
                 enum preview_colors colors);

#endif
