/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes of any answer are inside the image, and labels are UTF-8. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/utf8.h"
#include "eyelet/tasks.h"

static bool in_order(double first, double second)
{
    return first >= 0 && first <= second && second <= 1000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ey_box_list list;
    ey_err e;
    if (!ey_boxes_read(&list, (const char *)data, size, &e) || list.n > EY_MAX_BOXES) abort();
    for (size_t i = 0; i < list.n; i++) {
        const ey_box *b = &list.boxes[i];
        size_t n = strlen(b->label);
        if (!in_order(b->x1, b->x2) || !in_order(b->y1, b->y2) || n > EY_MAX_LABEL_BYTES ||
            !utf8_valid(b->label, n))
            abort();
    }
    ey_boxes_free(&list);
    return 0;
}
