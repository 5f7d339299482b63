/* SPDX-License-Identifier: Apache-2.0 */
/* What a model says where things are → boxes. Pure: text in, numbers out; knows no image and no
 * model. */
#ifndef EY_CLI_BOXES_H
#define EY_CLI_BOXES_H

#include "base/buf.h"
#include "base/limits.h"

struct box {
    double x1, y1, x2, y2; /* 0..1000 of the image's width and height; x1 <= x2, y1 <= y2 */
    const char *label;     /* UTF-8 without control characters; "" when the model gave none */
};

struct box_list {
    struct box *item;
    size_t n;
    enum {
        BOXES_FOUND,
        BOXES_NONE,
        BOXES_UNCLEAR
    } result;       /* NONE: the answer says that there is nothing */
    bool truncated; /* the answer has more than EY_MAX_BOXES */
    struct arena memory;
};

/* Reads an answer in the family's grounding format (spec 8.1): objects with "bbox_2d" (or "bbox")
 * and "label" (or "text_content"), in a list or not, fenced or not, with prose round them. Objects
 * without a box, points among them, and one that the end cuts off are left out. False when there is
 * no memory. `list` is the caller's to free either way. */
bool boxes_read(struct box_list *list, const char *text, size_t n, ey_err *e);
void boxes_free(struct box_list *list);

#endif
