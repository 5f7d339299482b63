/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a file's header before a codec allocates anything for it. */
#include "image/codecs/codecs.h"

#include "base/limits.h"

/* Canvases up to this size, the largest pixel budget of any model, are always allowed. */
static const uint64_t FREE_CANVAS_PIXELS = 1 << 24;
enum { CANVAS_PER_FRAME = 16 };

bool size_allowed(const struct image_file *f, uint64_t width, uint64_t height, ey_err *e)
{
    if (width == 0 || height == 0)
        return ey_fail(e, EY_BAD_IMAGE, "%s: the image has no pixels", f->name);
    if (width <= EY_MAX_IMAGE_SIDE && height <= EY_MAX_IMAGE_SIDE &&
        width * height <= EY_MAX_IMAGE_PIXELS)
        return true;
    return ey_fail(e, EY_BAD_IMAGE,
                   "%s: %llux%llu pixels are too many; an image may have up to %d a side and %zu "
                   "in total, so scale it down",
                   f->name, (unsigned long long)width, (unsigned long long)height,
                   EY_MAX_IMAGE_SIDE, EY_MAX_IMAGE_PIXELS);
}

static uint64_t larger_of_two(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

bool decoding_allowed(const struct image_file *f, uint64_t width, uint64_t height, uint64_t bytes,
                      ey_err *e)
{
    const struct image_budget *b = f->budget;
    /* with the sides in both orders, because the image may be rotated first */
    if (b && b->after && width && height) {
        bytes = larger_of_two(bytes, b->after(b->context, (int)width, (int)height));
        bytes = larger_of_two(bytes, b->after(b->context, (int)height, (int)width));
    }
    return image_budget_hold(f->budget, bytes, f->name, e);
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
