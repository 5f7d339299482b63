/* SPDX-License-Identifier: Apache-2.0 */
/* Draws labeled boxes into an image. */
#ifndef EY_CLI_DRAW_H
#define EY_CLI_DRAW_H

#include "image/image.h"

struct drawn_box {
    int x1, y1, x2, y2; /* pixels; may lie partly outside */
    const char *label;  /* UTF-8; characters beyond ASCII are shown as '?' */
    size_t color;       /* set by draw_boxes */
};

/* Draws n boxes, each label in a color of its own, with lines and letters scaled to the image and
 * clipped at its borders. Labels stand above their box, or inside it if there is no space. */
void draw_boxes(struct image *image, struct drawn_box *boxes, size_t n);

#endif
