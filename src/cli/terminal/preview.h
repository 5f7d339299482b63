/* SPDX-License-Identifier: Apache-2.0 */
/* Shows a small image in a terminal with two pixels per character cell, drawn as colored half
 * blocks. */
#ifndef EY_CLI_PREVIEW_H
#define EY_CLI_PREVIEW_H

#include "base/buf.h"

enum preview_colors { PREVIEW_NONE, PREVIEW_256, PREVIEW_TRUE };

/* Returns the colors that the terminal supports, according to COLORTERM and TERM. NO_COLOR turns
 * previews off. */
enum preview_colors preview_colors(void);
/* Appends the image as escape sequences, at most `columns` wide and `lines` high. Appends nothing
 * if it cannot be decoded. */
void preview_add(struct buf *out, const void *bytes, size_t n, int columns, int lines,
                 enum preview_colors colors);

#endif
