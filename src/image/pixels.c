/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates pixel buffers with overflow checks, and composites them on white. */
#include "image/pixels.h"

#include <stdlib.h>

#include "base/checked.h"

uint8_t *pixels_alloc(int width, int height, int channels, ey_err *e)
{
    size_t bytes;
    uint8_t *pixels = NULL;
    if (!checked_mul((size_t)width, (size_t)height, &bytes) ||
        !checked_mul(bytes, (size_t)channels, &bytes))
        bytes = SIZE_MAX;
    else
        pixels = malloc(bytes);
    if (!pixels) ey_fail_memory(e, "an image's pixels", bytes);
    return pixels;
}

/* Rounding is exact for every value: 255 is odd, so c·a/255 is never halfway between two integers.
 */
static uint8_t over_white(unsigned c, unsigned a)
{
    return (uint8_t)((c * a + 255 * (255 - a) + 127) / 255);
}

/* Takes ownership of pixels whose RGB was compacted to the front. */
static void take_rgb(struct image *out, uint8_t *pixels, int width, int height)
{
    uint8_t *rgb = realloc(pixels, 3 * (size_t)width * (size_t)height);
    *out = (struct image){width, height, rgb ? rgb : pixels};
}

void image_from_rgba(struct image *out, uint8_t *rgba, int width, int height)
{
    size_t n = (size_t)width * (size_t)height;
    /* in place: writes never overtake reads */
    for (size_t i = 0; i < n; i++) {
        const unsigned r = rgba[4 * i], g = rgba[4 * i + 1], b = rgba[4 * i + 2],
                       a = rgba[4 * i + 3];
        rgba[3 * i] = over_white(r, a);
        rgba[3 * i + 1] = over_white(g, a);
        rgba[3 * i + 2] = over_white(b, a);
    }
    take_rgb(out, rgba, width, height);
}

void image_from_premultiplied(struct image *out, uint8_t *rgba, int width, int height)
{
    size_t n = (size_t)width * (size_t)height;
    for (size_t i = 0; i < n; i++) {
        const unsigned white = 255u - rgba[4 * i + 3];
        for (size_t c = 0; c < 3; c++) {
            const unsigned value = rgba[4 * i + c] + white;
            rgba[3 * i + c] = value < 255
                                  ? (uint8_t)value
                                  : 255; /* after lossy coding, a color may exceed its alpha */
        }
    }
    take_rgb(out, rgba, width, height);
}
