/* SPDX-License-Identifier: Apache-2.0 */
/* The door: checks a file's size, finds its decoder, runs it. And what the decoders share: limits,
 * memory, the composition on white. */
#include "image/image.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/limits.h"
#include "image/codecs/codecs.h"

/* A canvas up to this size needs no justification; it is what the largest budget of a model takes.
 */
static const uint64_t FREE_CANVAS_PIXELS = 1 << 24;
enum { CANVAS_PER_FRAME = 16 };
/* The most that a decoder takes a pixel: RGBA twice (before and after it is turned), or a JPEG's
 * coefficients beside RGB. */
enum { BYTES_PER_PIXEL = 8, BUDGET_WAIT_MS = 20000 };

bool image_decode(struct image *out, const void *bytes, size_t n, const char *name, ey_err *e)
{
    return image_decode_within(out, bytes, n, name, NULL, e);
}

bool image_decode_within(struct image *out, const void *bytes, size_t n, const char *name,
                         struct image_budget *budget, ey_err *e)
{
    struct image_file f = {bytes, n, name, budget};
    *out = (struct image){0};
    if (n == 0) return ey_fail(e, EY_BAD_IMAGE, "%s: the file is empty (0 bytes)", name);
    if (n > EY_MAX_IMAGE_BYTES)
        return ey_fail(e, EY_BAD_IMAGE,
                       "%s: %zu bytes are more than eyelet takes for a picture (%zu)", name, n,
                       EY_MAX_IMAGE_BYTES);
    decode_fn *decode = decoder_for(&f, e);
    return decode && decode(out, &f, e);
}

void image_free(struct image *image)
{
    if (!image) return;
    free(image->rgb);
    *image = (struct image){0};
}

bool image_budget_hold(struct image_budget *b, uint64_t needed, const char *name, ey_err *e)
{
    if (!b || !b->from || needed <= b->held) return true;
    if (needed > ey_budget_total(b->from))
        return ey_fail(e, EY_BAD_IMAGE,
                       "%s: decoding it takes up to %llu MiB and all pictures together have %llu; "
                       "scale it down",
                       name, (unsigned long long)(needed >> 20),
                       (unsigned long long)(ey_budget_total(b->from) >> 20));
    if (!ey_budget_acquire(b->from, needed - b->held, BUDGET_WAIT_MS))
        return ey_fail(e, EY_BUSY,
                       "%s: other pictures take all of the memory for pictures; try again later",
                       name);
    b->held = needed;
    return true;
}

bool size_allowed(const struct image_file *f, uint64_t width, uint64_t height, ey_err *e)
{
    if (width == 0 || height == 0)
        return ey_fail(e, EY_BAD_IMAGE, "%s: the picture has no pixels", f->name);
    if (width <= EY_MAX_IMAGE_SIDE && height <= EY_MAX_IMAGE_SIDE &&
        width * height <= EY_MAX_IMAGE_PIXELS)
        return image_budget_hold(f->budget, width * height * BYTES_PER_PIXEL, f->name, e);
    return ey_fail(e, EY_BAD_IMAGE,
                   "%s: %llux%llu pixels are too many; eyelet takes up to %d a side and %zu in "
                   "all, so scale it down",
                   f->name, (unsigned long long)width, (unsigned long long)height,
                   EY_MAX_IMAGE_SIDE, EY_MAX_IMAGE_PIXELS);
}

bool size_plausible(const struct image_file *f, const char *format, uint64_t units,
                    uint64_t units_per_byte, ey_err *e)
{
    return units / units_per_byte <= f->n ||
           fail_damaged(f, format, "too few bytes for the size it claims", e);
}

bool canvas_plausible(const struct image_file *f, uint64_t canvas, uint64_t frame, ey_err *e)
{
    if (canvas <= FREE_CANVAS_PIXELS || canvas / CANVAS_PER_FRAME <= frame) return true;
    return ey_fail(e, EY_BAD_IMAGE,
                   "%s: a canvas of %llu pixels around a first frame of %llu is not plausible",
                   f->name, (unsigned long long)canvas, (unsigned long long)frame);
}

bool fail_damaged(const struct image_file *f, const char *format, const char *detail, ey_err *e)
{
    if (!detail || !*detail)
        return ey_fail(e, EY_BAD_IMAGE, "%s: this %s is truncated or damaged", f->name, format);
    return ey_fail(e, EY_BAD_IMAGE, "%s: this %s is truncated or damaged (%s)", f->name, format,
                   detail);
}

uint8_t *pixels_alloc(int width, int height, int channels, ey_err *e)
{
    size_t bytes;
    uint8_t *pixels = NULL;
    if (!checked_mul((size_t)width, (size_t)height, &bytes) ||
        !checked_mul(bytes, (size_t)channels, &bytes))
        bytes = SIZE_MAX;
    else
        pixels = malloc(bytes);
    if (!pixels) ey_fail_memory(e, "a picture's pixels", bytes);
    return pixels;
}

/* Exact for every value: 255 is odd, so c·a/255 is never half way between two integers. */
static uint8_t over_white(unsigned c, unsigned a)
{
    return (uint8_t)((c * a + 255 * (255 - a) + 127) / 255);
}

void image_from_rgba(struct image *out, uint8_t *rgba, int width, int height)
{
    size_t n = (size_t)width * (size_t)height;
    for (size_t i = 0; i < n;
         i++) { /* in place: what is written lies before what is still to be read */
        const unsigned r = rgba[4 * i], g = rgba[4 * i + 1], b = rgba[4 * i + 2],
                       a = rgba[4 * i + 3];
        rgba[3 * i] = over_white(r, a);
        rgba[3 * i + 1] = over_white(g, a);
        rgba[3 * i + 2] = over_white(b, a);
    }
    uint8_t *rgb = realloc(rgba, 3 * n);
    *out = (struct image){width, height, rgb ? rgb : rgba};
}
