/* SPDX-License-Identifier: Apache-2.0 */
/* Applies an orientation by moving pixels. */
#include "image/orient.h"

#include <string.h>

#include "image/pixels.h"

enum { TILE = 64 }; /* pixels per side */

/* Where pixels go, as offsets in the result in pixels: the image's first pixel, and the steps from
 * a pixel to its right and lower neighbors. */
struct pixel_walk {
    ptrdiff_t start, right, down;
};

static struct pixel_walk pixel_walk_for(int orientation, ptrdiff_t width, ptrdiff_t height)
{
    ptrdiff_t turned_width = orientation >= 5 ? height : width;
    ptrdiff_t last_x = width - 1, last_y = height - 1, row = turned_width;
    switch (orientation) {
    case 2: return (struct pixel_walk){last_x, -1, row}; /* mirrored left to right */
    case 3: return (struct pixel_walk){last_y * row + last_x, -1, -row}; /* upside down */
    case 4: return (struct pixel_walk){last_y * row, 1, -row}; /* mirrored top to bottom */
    case 5: return (struct pixel_walk){0, row, 1};             /* transposed */
    case 6: return (struct pixel_walk){last_y, row, -1};       /* rotate clockwise */
    case 7: /* transposed along the other diagonal */
        return (struct pixel_walk){last_x * row + last_y, -row, -1};
    default: return (struct pixel_walk){last_x * row, -row, 1}; /* 8: rotate counterclockwise */
    }
}

/* Moves one tile. Quarter turns map rows to columns, so moving whole rows would touch a new cache
 * line with every pixel. */
static void move_tile(uint8_t *to, const struct image *from, const struct pixel_walk *walk,
                      int left, int top)
{
    int right = from->width - left < TILE ? from->width : left + TILE;
    int bottom = from->height - top < TILE ? from->height : top + TILE;
    for (ptrdiff_t y = top; y < bottom; y++) {
        const uint8_t *pixel = from->rgb + 3 * (y * from->width + left);
        for (ptrdiff_t x = left; x < right; x++, pixel += 3)
            memcpy(to + 3 * (walk->start + y * walk->down + x * walk->right), pixel, 3);
    }
}

bool image_turn_upright(struct image *image, int orientation, ey_err *e)
{
    if (orientation < 2 || orientation > 8) return true;
    uint8_t *turned = pixels_alloc(image->width, image->height, 3, e);
    if (!turned) return false;
    const struct pixel_walk walk = pixel_walk_for(orientation, image->width, image->height);
    for (int top = 0; top < image->height; top += TILE)
        for (int left = 0; left < image->width; left += TILE)
            move_tile(turned, image, &walk, left, top);
    const bool swap = orientation >= 5;
    const int width = swap ? image->height : image->width;
    const int height = swap ? image->width : image->height;
    image_free(image);
    *image = (struct image){.width = width, .height = height, .rgb = turned};
    return true;
}
