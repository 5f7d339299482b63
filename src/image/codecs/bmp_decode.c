/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes BMP files of Windows and OS/2: 1 to 32 bits, palettes, bit masks, RLE. Pixel values match
 * Pillow's. Alpha is used if the header has a mask for it and the alpha of some pixel is not 0. */
#include <stdlib.h>
#include <string.h>

#include "image/codecs/codecs.h"
#include "image/pixels.h"

enum {
    FILE_HEADER = 14,
    OS2_HEADER = 12,
    INFO_HEADER = 40,
    ALPHA_HEADER = 56, /* with masks of red, green, blue and alpha */
    LONGEST_HEADER = 124,
    PIXELS_PER_BYTE = 4096, /* plausible for RLE: a run gives 128, a skip command more */
    ROUNDED_BYTES = 8192,   /* malloc's rounding of a large block */
};

enum bmp_coding { BMP_RGB, BMP_RLE8, BMP_RLE4, BMP_MASKS, BMP_ALPHA_MASKS = 6 };

/* One channel of a 16- or 32-bit pixel. */
struct bmp_channel {
    uint32_t mask;
    int shift, bits;
};

struct bmp {
    const struct image_file *file;
    uint32_t header, coding, data, bits;
    int width, height;
    bool top_down, alpha;
    size_t stride; /* bytes per row */
    struct bmp_channel channel[4];
    uint8_t palette[256][3];
    uint8_t *pixels;
};

static bool fail_bmp(const struct bmp *b, const char *detail, ey_err *e)
{
    return fail_damaged(b->file, "BMP", detail, e);
}

static uint32_t bmp_u16(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t bmp_u32(const uint8_t *p)
{
    return bmp_u16(p) | bmp_u16(p + 2) << 16;
}

/* ---- headers ---- */

static bool read_bmp_size(struct bmp *b, ey_err *e)
{
    const uint8_t *info = b->file->bytes + FILE_HEADER;
    bool os2 = b->header == OS2_HEADER;
    int64_t width = os2 ? (int64_t)bmp_u16(info + 4) : (int32_t)bmp_u32(info + 4);
    int64_t height = os2 ? (int64_t)bmp_u16(info + 6) : (int32_t)bmp_u32(info + 8);
    b->top_down = height < 0;
    if (b->top_down) height = -height;
    if (width < 0 || !size_allowed(b->file, (uint64_t)width, (uint64_t)height, e))
        return width >= 0 ? false : fail_bmp(b, "a negative width", e);
    b->width = (int)width;
    b->height = (int)height;
    b->bits = bmp_u16(info + (os2 ? 10 : 14));
    b->coding = os2 ? BMP_RGB : bmp_u32(info + 16);
    b->stride = ((size_t)width * b->bits + 31) / 32 * 4;
    return true;
}

static bool check_bmp_coding(const struct bmp *b, ey_err *e)
{
    static const uint32_t depths[] = {1, 4, 8, 16, 24, 32};
    bool known = false, masks = b->coding == BMP_MASKS || b->coding == BMP_ALPHA_MASKS;
    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++)
        known |= b->bits == depths[i];
    known = known && (b->coding == BMP_RGB || (b->coding == BMP_RLE8 && b->bits == 8) ||
                      (b->coding == BMP_RLE4 && b->bits == 4) ||
                      (masks && (b->bits == 16 || b->bits == 32)));
    return known ||
           ey_fail(
               e, EY_BAD_IMAGE,
               "%s: a BMP with %u bits per pixel and compression %u, which eyelet does not read; "
               "convert it to JPEG or PNG",
               b->file->name, (unsigned)b->bits, (unsigned)b->coding);
}

static struct bmp_channel channel_of_mask(uint32_t mask)
{
    struct bmp_channel channel = {.mask = mask};
    while (mask && !(mask & 1)) {
        mask >>= 1;
        channel.shift++;
    }
    while (mask) {
        mask >>= 1;
        channel.bits++;
    }
    return channel;
}

/* Reads the masks, which are in the header or, if it is too short, after it. */
static bool read_bmp_masks(struct bmp *b, ey_err *e)
{
    static const uint32_t usual[][4] = {{0x7c00, 0x3e0, 0x1f, 0}, {0xff0000, 0xff00, 0xff, 0}};
    bool given = b->coding == BMP_MASKS || b->coding == BMP_ALPHA_MASKS;
    bool alpha = b->header >= ALPHA_HEADER || b->coding == BMP_ALPHA_MASKS;
    const uint8_t *masks = b->file->bytes + FILE_HEADER + INFO_HEADER;
    size_t end = FILE_HEADER + INFO_HEADER + (alpha ? 16 : 12);
    if (given && b->file->n < end) return fail_bmp(b, "its masks are missing", e);
    for (size_t i = 0; i < 4; i++) {
        uint32_t mask = !given           ? usual[b->bits == 32][i]
                        : i < 3 || alpha ? bmp_u32(masks + 4 * i)
                                         : 0;
        b->channel[i] = channel_of_mask(mask);
    }
    b->alpha = b->channel[3].mask != 0;
    return true;
}

/* Missing palette entries stay black. */
static void read_bmp_palette(struct bmp *b)
{
    bool os2 = b->header == OS2_HEADER;
    size_t entry = os2 ? 3 : 4, at = FILE_HEADER + b->header, most = (size_t)1 << b->bits;
    uint32_t used = os2 ? 0 : bmp_u32(b->file->bytes + FILE_HEADER + 32);
    size_t n = used && used < most ? used : most;
    for (size_t i = 0; i < n && at + entry <= b->file->n; i++, at += entry)
        for (size_t c = 0; c < 3; c++)
            b->palette[i][c] = b->file->bytes[at + 2 - c];
}

static bool read_bmp_header(struct bmp *b, ey_err *e)
{
    const struct image_file *f = b->file;
    if (f->n < FILE_HEADER + OS2_HEADER) return fail_bmp(b, NULL, e);
    b->data = bmp_u32(f->bytes + 10);
    b->header = bmp_u32(f->bytes + FILE_HEADER);
    if ((b->header != OS2_HEADER && b->header < INFO_HEADER) || b->header > LONGEST_HEADER ||
        f->n < FILE_HEADER + b->header)
        return fail_bmp(b, "its header", e);
    if (!read_bmp_size(b, e) || !check_bmp_coding(b, e)) return false;
    if (b->bits <= 8) read_bmp_palette(b);
    return b->bits < 16 || b->bits == 24 || read_bmp_masks(b, e);
}

/* ---- rows ---- */

/* Truncates or expands a channel to 8 bits like Pillow. */
static uint8_t channel_value(const struct bmp_channel *channel, uint32_t pixel)
{
    uint32_t value = (pixel & channel->mask) >> channel->shift;
    if (!channel->bits) return 0;
    if (channel->bits >= 8) return (uint8_t)(value >> (channel->bits - 8));
    return (uint8_t)(value * 255 / ((1u << channel->bits) - 1));
}

static void read_masked_row(const struct bmp *b, uint8_t *to, const uint8_t *row)
{
    size_t channels = b->alpha ? 4 : 3, bytes = b->bits / 8;
    for (int x = 0; x < b->width; x++, to += channels, row += bytes) {
        uint32_t pixel = bytes == 2 ? bmp_u16(row) : bmp_u32(row);
        for (size_t c = 0; c < channels; c++)
            to[c] = channel_value(&b->channel[c], pixel);
    }
}

static void read_palette_row(const struct bmp *b, uint8_t *to, const uint8_t *row)
{
    unsigned per_byte = 8 / b->bits, mask = (1u << b->bits) - 1;
    for (unsigned x = 0; x < (unsigned)b->width; x++, to += 3) {
        unsigned shift = (per_byte - 1 - x % per_byte) * b->bits;
        memcpy(to, b->palette[row[x / per_byte] >> shift & mask], 3);
    }
}

static void read_bgr_row(const struct bmp *b, uint8_t *to, const uint8_t *row)
{
    for (int x = 0; x < b->width; x++, to += 3, row += 3) {
        to[0] = row[2];
        to[1] = row[1];
        to[2] = row[0];
    }
}

/* Returns the destination of the file's row y. */
static uint8_t *row_of(const struct bmp *b, int y)
{
    size_t row = (size_t)(b->top_down ? y : b->height - 1 - y);
    return b->pixels + row * (size_t)b->width * (b->alpha ? 4 : 3);
}

static void read_plain_rows(const struct bmp *b)
{
    const uint8_t *row = b->file->bytes + b->data;
    for (int y = 0; y < b->height; y++, row += b->stride) {
        if (b->bits <= 8)
            read_palette_row(b, row_of(b, y), row);
        else if (b->bits == 24)
            read_bgr_row(b, row_of(b, y), row);
        else
            read_masked_row(b, row_of(b, y), row);
    }
}

/* ---- runs ---- */

struct bmp_runs {
    const uint8_t *at, *end;
    int x, y;
};

static void put_index(const struct bmp *b, struct bmp_runs *r, unsigned index)
{
    if (r->x < b->width && r->y < b->height)
        memcpy(row_of(b, r->y) + 3 * (size_t)r->x, b->palette[index], 3);
    if (r->x < b->width) r->x++;
}

/* Writes n pixels: a repeated byte, or literal bytes. */
static void put_run(const struct bmp *b, struct bmp_runs *r, const uint8_t *bytes, unsigned n,
                    bool repeated)
{
    for (unsigned i = 0; i < n; i++) {
        if (b->coding == BMP_RLE8)
            put_index(b, r, bytes[repeated ? 0 : i]);
        else
            put_index(b, r, bytes[repeated ? 0 : i / 2] >> (i % 2 ? 0 : 4) & 15);
    }
}

/* Writes literal pixels, which the file pads to 16 bits. */
static bool put_literal(const struct bmp *b, struct bmp_runs *r, unsigned n)
{
    size_t bytes = b->coding == BMP_RLE8 ? n : (n + 1) / 2, padded = (bytes + 1) & ~(size_t)1;
    if ((size_t)(r->end - r->at) < bytes) return false;
    put_run(b, r, r->at, n, false);
    r->at += (size_t)(r->end - r->at) < padded ? bytes : padded;
    return true;
}

/* Executes the command in the next two bytes. Returns false if the data end before or in it. Sets
 * *done at the end of the bitmap. */
static bool read_run(const struct bmp *b, struct bmp_runs *r, bool *done)
{
    enum { END_OF_LINE, END_OF_BITMAP, DELTA };
    if (r->end - r->at < 2) return false;
    const uint8_t *pair = r->at;
    r->at += 2;
    if (pair[0]) {
        put_run(b, r, pair + 1, pair[0], true);
    } else if (pair[1] == END_OF_LINE) {
        r->x = 0;
        r->y++;
    } else if (pair[1] == END_OF_BITMAP) {
        *done = true;
    } else if (pair[1] != DELTA) {
        return put_literal(b, r, pair[1]);
    } else {
        if (r->end - r->at < 2) return false;
        int x = r->x + r->at[0], y = r->y + r->at[1];
        r->x = x < b->width ? x : b->width;
        r->y = y < b->height ? y : b->height;
        r->at += 2;
    }
    return true;
}

/* Pixels that no run covers have color 0. */
static bool read_runs(const struct bmp *b, ey_err *e)
{
    struct bmp_runs r = {b->file->bytes + b->data, b->file->bytes + b->file->n, 0, 0};
    bool done = false;
    for (size_t i = 0; i < (size_t)b->width * (size_t)b->height; i++)
        memcpy(b->pixels + 3 * i, b->palette[0], 3);
    while (!done && r.y < b->height)
        if (!read_run(b, &r, &done))
            return (r.y == b->height - 1 && r.x == b->width) || fail_bmp(b, NULL, e);
    return true;
}

/* ---- the image ---- */

static bool check_bmp_data(const struct bmp *b, ey_err *e)
{
    uint64_t pixels = (uint64_t)b->width * (uint64_t)b->height;
    if (b->data < FILE_HEADER + b->header || b->data >= b->file->n)
        return fail_bmp(b, "its pixels are outside the file", e);
    if (b->coding == BMP_RLE8 || b->coding == BMP_RLE4)
        return size_plausible(b->file, "BMP", pixels, PIXELS_PER_BYTE, e);
    /* the padding of the last row may be missing */
    uint64_t last = ((uint64_t)b->width * b->bits + 7) / 8;
    return b->stride * (uint64_t)(b->height - 1) + last <= b->file->n - b->data ||
           fail_bmp(b, NULL, e);
}

/* Ignores alpha that is 0 everywhere, as programs without alpha support write it. */
static void make_opaque_if_unused(const struct bmp *b)
{
    size_t n = (size_t)b->width * (size_t)b->height;
    for (size_t i = 0; i < n; i++)
        if (b->pixels[4 * i + 3]) return;
    for (size_t i = 0; i < n; i++)
        b->pixels[4 * i + 3] = 255;
}

bool bmp_decode(struct image *out, const struct image_file *f, ey_err *e)
{
    struct bmp b = {.file = f};
    if (!read_bmp_header(&b, e) || !check_bmp_data(&b, e)) return false;
    int channels = b.alpha ? 4 : 3;
    uint64_t bytes = (uint64_t)b.width * (uint64_t)b.height * (uint64_t)channels + ROUNDED_BYTES;
    if (!decoding_allowed(f, (uint64_t)b.width, (uint64_t)b.height, bytes, e)) return false;
    if (!(b.pixels = pixels_alloc(b.width, b.height, channels, e))) return false;
    if (b.coding == BMP_RLE8 || b.coding == BMP_RLE4) {
        if (!read_runs(&b, e)) return free(b.pixels), false;
    } else {
        read_plain_rows(&b);
    }
    if (b.alpha) {
        make_opaque_if_unused(&b);
        image_from_rgba(out, b.pixels, b.width, b.height);
    } else {
        *out = (struct image){.width = b.width, .height = b.height, .rgb = b.pixels};
    }
    return true;
}
