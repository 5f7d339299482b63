/* SPDX-License-Identifier: Apache-2.0 */
/* TIFF, its first page, decoded by libtiff in another process (src/sandbox), which is given the
 * memory that the page's strips or tiles need. */
#include <string.h>

#include "base/limits.h"
#include "image/codecs/codecs.h"
#include "image/codecs/tiff_pages.h"
#include "image/orient.h"
#include "image/pixels.h"
#include "sandbox/sandbox.h"
#include "sandbox/sandbox_message.h"

/* Codecs' states and tables (those of LZMA are the largest), threads' stacks. */
enum { FIXED_BYTES = 16 << 20, CHANNELS = 4 };
static const double LEAST_SECONDS = 10, SECONDS_PER_MEGAPIXEL = 0.5;

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool check_tiff_page(const struct tiff_page *page, const struct image_file *f, ey_err *e)
{
    enum { MOST_BITS = 64 * 16, MOST_TILE_PIXELS = 1 << 26 };
    if (!size_allowed(f, page->width, page->height, e)) return false;
    if (page->bits_per_pixel < 1 || page->bits_per_pixel > MOST_BITS)
        return fail_damaged(f, "TIFF", "its bits of a pixel", e);
    bool tiles_are_sound = page->tile_width <= EY_MAX_IMAGE_SIDE &&
                           page->tile_height <= EY_MAX_IMAGE_SIDE &&
                           page->tile_width * page->tile_height <= MOST_TILE_PIXELS;
    return tiles_are_sound || fail_damaged(f, "TIFF", "its tiles", e);
}

/* libtiff decodes a strip or a tile at a time, JPEG's with their colours at full size; it copies
 * what is coded where its bits are in the other order. */
static struct sandbox_limits tiff_limits(const struct image_file *f, const struct tiff_page *page)
{
    uint64_t pixels = page->width * page->height, rows = least_of(page->strip_rows, page->height);
    uint64_t tile = page->tile_width * page->tile_height, strip = page->width * rows;
    uint64_t part = (tile ? tile : strip) * page->bits_per_pixel / 8;
    const struct image_budget *budget = f->budget;
    return (struct sandbox_limits){.memory = FIXED_BYTES + 2 * part + f->n,
                                   .output = BITMAP_HEADER_BYTES + pixels * CHANNELS,
                                   .seconds = LEAST_SECONDS +
                                              SECONDS_PER_MEGAPIXEL * (double)pixels / 1e6,
                                   .gone = budget ? budget->gone : NULL,
                                   .user = budget ? budget->user : NULL};
}

/* The decoder's bitmap with the worker's memory, then the bitmap with our copy, then the copy as it
 * is turned. */
static uint64_t tiff_decoding_bytes(const struct image_file *f, const struct tiff_page *page,
                                    const struct sandbox_limits *limits)
{
    uint64_t pixels = page->width * page->height;
    uint64_t child = limits->memory + f->n, ours = pixels * CHANNELS;
    uint64_t turned = page->orientation > 1 ? 2 * 3 * pixels : 0;
    uint64_t decoding = limits->output + (child > ours ? child : ours);
    return decoding > turned ? decoding : turned;
}

/* libtiff has colours multiplied by alpha. What is no alpha is left out. */
static bool take_tiff_bitmap(struct image *out, const struct sandbox_image *image, bool alpha,
                             ey_err *e)
{
    size_t n = (size_t)image->width * (size_t)image->height;
    uint8_t *pixels = pixels_alloc(image->width, image->height, CHANNELS, e);
    if (!pixels) return false;
    memcpy(pixels, image->pixels, n * CHANNELS);
    for (size_t i = 0; !alpha && i < n; i++)
        pixels[CHANNELS * i + 3] = 255;
    image_from_premultiplied(out, pixels, image->width, image->height);
    return true;
}

static bool decode_tiff_page(struct image *out, const struct image_file *f,
                             const struct tiff_page *page, const struct sandbox_limits *limits,
                             ey_err *e)
{
    struct sandbox_image image;
    if (!sandbox_decode(&image, SANDBOX_TIFF, f->bytes, f->n, limits, e))
        return ey_fail_within(e, "%s: this TIFF", f->name);
    bool ok = image.channels == CHANNELS && (uint64_t)image.width == page->width &&
              (uint64_t)image.height == page->height;
    if (!ok) fail_damaged(f, "TIFF", NULL, e);
    ok = ok && take_tiff_bitmap(out, &image, page->alpha, e);
    sandbox_image_close(&image);
    return ok;
}

bool tiff_decode(struct image *out, const struct image_file *f, ey_err *e)
{
    struct tiff_page page;
    if (!tiff_read_first_page(&page, f->bytes, f->n)) return fail_damaged(f, "TIFF", NULL, e);
    if (!check_tiff_page(&page, f, e)) return false;
    struct sandbox_limits limits = tiff_limits(f, &page);
    if (!decoding_allowed(f, page.width, page.height, tiff_decoding_bytes(f, &page, &limits), e) ||
        !decode_tiff_page(out, f, &page, &limits, e))
        return false;
    if (image_turn_upright(out, page.orientation, e)) return true;
    image_free(out);
    return false;
}
