/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the first page of a TIFF with libtiff in a sandboxed process (src/sandbox). Its memory
 * limit follows from the page's strips or tiles. */
#include <string.h>

#include "base/limits.h"
#include "image/codecs/codecs.h"
#include "image/codecs/tiff_pages.h"
#include "image/orient.h"
#include "image/pixels.h"
#include "sandbox/sandbox.h"
#include "sandbox/sandbox_message.h"

/* Codec states and tables (LZMA's are the largest) and thread stacks. */
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
        return fail_damaged(f, "TIFF", "its bits per pixel", e);
    bool tiles_are_sound = page->tile_width <= EY_MAX_IMAGE_SIDE &&
                           page->tile_height <= EY_MAX_IMAGE_SIDE &&
                           page->tile_width * page->tile_height <= MOST_TILE_PIXELS;
    return tiles_are_sound || fail_damaged(f, "TIFF", "its tiles", e);
}

/* libtiff decodes one strip or tile at a time, and upsamples the chroma of JPEG-coded ones. It also
 * copies coded data whose bit order is reversed. */
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

/* Returns the largest of three peaks: the decoder's bitmap with the worker's memory, the bitmap
 * with our copy, or the copy before and after rotation. */
static uint64_t tiff_decoding_bytes(const struct image_file *f, const struct tiff_page *page,
                                    const struct sandbox_limits *limits)
{
    uint64_t pixels = page->width * page->height;
    uint64_t child = limits->memory + f->n, ours = pixels * CHANNELS;
    uint64_t turned = page->orientation > 1 ? 2 * 3 * pixels : 0;
    uint64_t decoding = limits->output + (child > ours ? child : ours);
    return decoding > turned ? decoding : turned;
}

/* libtiff returns premultiplied colors. Extra channels other than alpha are dropped. */
static bool decode_tiff_page(struct image *out, const struct image_file *f,
                             const struct tiff_page *page, const struct sandbox_limits *limits,
                             ey_err *e)
{
    struct sandbox_image image;
    if (!sandbox_decode(&image, SANDBOX_TIFF, f->bytes, f->n, limits, e))
        return ey_fail_within(e, "%s: this TIFF", f->name);
    if (image.channels == CHANNELS && (uint64_t)image.width == page->width &&
        (uint64_t)image.height == page->height)
        return image_from_bitmap(out, &image, page->alpha ? ALPHA_PREMULTIPLIED : ALPHA_IGNORED, e);
    sandbox_image_close(&image);
    return fail_damaged(f, "TIFF", NULL, e);
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
