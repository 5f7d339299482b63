/* SPDX-License-Identifier: Apache-2.0 */
/* Draws images as half blocks (U+2580): the foreground color is the upper pixel, the background
 * color the lower one. */
#include "cli/terminal/preview.h"

#include <stdlib.h>
#include <string.h>

#include "image/image.h"

enum preview_colors preview_colors(void)
{
    const char *colorterm = getenv("COLORTERM"), *term = getenv("TERM");
    if (getenv("NO_COLOR") || !term || strcmp(term, "dumb") == 0) return PREVIEW_NONE;
    if (colorterm && (strstr(colorterm, "truecolor") || strstr(colorterm, "24bit")))
        return PREVIEW_TRUE;
    return strstr(term, "256color") ? PREVIEW_256 : PREVIEW_NONE;
}

/* Returns the nearest color of the 6x6x6 cube. */
static int cube_index(const uint8_t *rgb)
{
    int index = 16, weight = 36;
    for (int c = 0; c < 3; c++, weight /= 6)
        index += weight * ((rgb[c] * 5 + 127) / 255);
    return index;
}

static void add_color(struct buf *out, int ground, const uint8_t *rgb, enum preview_colors colors)
{
    if (colors == PREVIEW_TRUE)
        buf_printf(out, "\033[%d;2;%d;%d;%dm", ground, rgb[0], rgb[1], rgb[2]);
    else
        buf_printf(out, "\033[%d;5;%dm", ground, cube_index(rgb));
}

static void add_cells(struct buf *out, const struct image *image, enum preview_colors colors)
{
    for (int y = 0; y + 1 < image->height; y += 2) {
        buf_add_text(out, "  ");
        for (int x = 0; x < image->width; x++) {
            const uint8_t *upper = image->rgb + 3 * ((size_t)y * (size_t)image->width + (size_t)x);
            add_color(out, 38, upper, colors);
            add_color(out, 48, upper + 3 * (size_t)image->width, colors);
            buf_add_text(out, "\xe2\x96\x80");
        }
        buf_add_text(out, "\033[0m\n");
    }
}

static int at_least_two(int n)
{
    return n < 2 ? 2 : n & ~1;
}

void preview_add(struct buf *out, const void *bytes, size_t n, int columns, int lines,
                 enum preview_colors colors)
{
    struct image original = {0}, small = {0};
    if (colors == PREVIEW_NONE || !image_decode(&original, bytes, n, "preview", NULL)) return;
    double scale = (double)columns / original.width, by_height = 2.0 * lines / original.height;
    if (by_height < scale) scale = by_height;
    int width = at_least_two((int)(original.width * scale)),
        height = at_least_two((int)(original.height * scale));
    if (image_resize(&small, &original, width, height, NULL)) add_cells(out, &small, colors);
    image_free(&small);
    image_free(&original);
}
