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

/* Clamps to 255, because a color may exceed its alpha after lossy coding. */
static uint8_t premultiplied_over_white(unsigned c, unsigned a)
{
    const unsigned value = c + 255 - a;
    return value < 255 ? (uint8_t)value : 255;
}

/* Composites n pixels on white. rgb may be rgba: writes never overtake reads. */
static void composite(uint8_t *rgb, const uint8_t *rgba, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned r = rgba[4 * i], g = rgba[4 * i + 1], b = rgba[4 * i + 2],
                       a = rgba[4 * i + 3];
        rgb[3 * i] = over_white(r, a);
        rgb[3 * i + 1] = over_white(g, a);
        rgb[3 * i + 2] = over_white(b, a);
    }
}

static void composite_premultiplied(uint8_t *restrict rgb, const uint8_t *restrict rgba, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < 3; c++)
            rgb[3 * i + c] = premultiplied_over_white(rgba[4 * i + c], rgba[4 * i + 3]);
}

static void drop_alpha(uint8_t *restrict rgb, const uint8_t *restrict rgba, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < 3; c++)
            rgb[3 * i + c] = rgba[4 * i + c];
}

void image_from_rgba(struct image *out, uint8_t *rgba, int width, int height)
{
    size_t n = (size_t)width * (size_t)height;
    composite(rgba, rgba, n);
    uint8_t *rgb = realloc(rgba, 3 * n);
    *out = (struct image){.width = width, .height = height, .rgb = rgb ? rgb : rgba};
}

/* Takes over the bitmap's mapping. */
static void take_mapping(struct image *out, struct sandbox_image *bitmap)
{
    *out = (struct image){.width = bitmap->width,
                          .height = bitmap->height,
                          .rgb = bitmap->pixels,
                          .map = bitmap->map,
                          .map_size = bitmap->map_size};
    *bitmap = (struct sandbox_image){0};
}

bool image_from_bitmap(struct image *out, struct sandbox_image *bitmap, enum bitmap_alpha alpha,
                       ey_err *e)
{
    const size_t n = (size_t)bitmap->width * (size_t)bitmap->height;
    if (bitmap->channels == 3) {
        take_mapping(out, bitmap);
        return true;
    }
    uint8_t *rgb = pixels_alloc(bitmap->width, bitmap->height, 3, e);
    if (rgb) {
        *out = (struct image){.width = bitmap->width, .height = bitmap->height, .rgb = rgb};
        if (alpha == ALPHA_STRAIGHT) composite(rgb, bitmap->pixels, n);
        if (alpha == ALPHA_PREMULTIPLIED) composite_premultiplied(rgb, bitmap->pixels, n);
        if (alpha == ALPHA_IGNORED) drop_alpha(rgb, bitmap->pixels, n);
    }
    sandbox_image_close(bitmap);
    return rgb;
}
