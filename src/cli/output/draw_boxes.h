/* SPDX-License-Identifier: Apache-2.0 */
/* Draws labeled boxes into an image. */
#ifndef EY_CLI_OUTPUT_DRAW_BOXES_H
#define EY_CLI_OUTPUT_DRAW_BOXES_H

#include "image/image.h"

struct drawn_box {
    int x1, y1, x2, y2; /* pixels; may lie partly outside */
    const char *label;  /* UTF-8; characters beyond ASCII are shown as '?' */
    size_t color;       /* set by draw_boxes */
};

/* Draws n boxes with their labels. Boxes of the same label have the same color. Lines and letters
 * are scaled to the image and clipped at its borders. A label is above its box, or inside if there
 * is no space above. */
void draw_boxes(struct image *image, struct drawn_box *boxes, size_t n);

#endif
