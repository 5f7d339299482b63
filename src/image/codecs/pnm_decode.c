/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes PBM, PGM and PPM (netpbm's P1 to P6), the output of scanners, camera tools and pdftoppm.
 */
#include <ctype.h>
#include <stdlib.h>

#include "image/codecs/codecs.h"
#include "image/pixels.h"

enum {
    DIGITS = 9, /* most digits of a number, so that it fits 32 bits */
    MOST_VALUE = 65535,
    ROUNDED_BYTES = 8192 /* malloc's rounding of a large block */
};

struct pnm {
    const struct image_file *file;
    size_t at; /* read position */
    uint32_t width, height, most;
    int kind; /* 1 bitmap, 2 gray, 3 RGB */
    bool plain;
};

static bool fail_pnm(const struct pnm *p, const char *detail, ey_err *e)
{
    return fail_damaged(p->file, "PNM", detail, e);
}

/* Skips whitespace and comments, which extend to the end of the line. */
static void pnm_skip_blanks(struct pnm *p)
{
    const uint8_t *bytes = p->file->bytes;
    bool comment = false;
    for (; p->at < p->file->n; p->at++) {
        if (bytes[p->at] == '#') comment = true;
        if (bytes[p->at] == '\n' || bytes[p->at] == '\r') comment = false;
        if (!comment && !isspace(bytes[p->at])) return;
    }
}

/* Reads a decimal number; more than `digits` digits are an error, except in a bitmap's rows, where
 * each digit is a value. */
static bool pnm_read_number(struct pnm *p, int digits, uint32_t *out)
{
    int n = 0;
    *out = 0;
    pnm_skip_blanks(p);
    for (; p->at < p->file->n && n < digits && isdigit(p->file->bytes[p->at]); p->at++, n++)
        *out = *out * 10 + (uint32_t)(p->file->bytes[p->at] - '0');
    return n > 0 && (digits == 1 || p->at == p->file->n || !isdigit(p->file->bytes[p->at]));
}

static bool read_pnm_header(struct pnm *p, ey_err *e)
{
    int format = p->file->bytes[1] - '0';
    p->plain = format <= 3;
    p->kind = p->plain ? format : format - 3;
    p->at = 2;
    p->most = 1;
    if (!pnm_read_number(p, DIGITS, &p->width) || !pnm_read_number(p, DIGITS, &p->height) ||
        (p->kind > 1 && !pnm_read_number(p, DIGITS, &p->most)))
        return fail_pnm(p, "its header", e);
    if (p->most < 1 || p->most > MOST_VALUE) return fail_pnm(p, "its largest value", e);
    p->at++; /* one blank; plain files may have more */
    return size_allowed(p->file, p->width, p->height, e);
}

static size_t pnm_channels(const struct pnm *p)
{
    return p->kind == 3 ? 3 : 1;
}

/* Returns the bytes per row of a binary file. */
static size_t row_bytes(const struct pnm *p)
{
    if (p->kind == 1) return ((size_t)p->width + 7) / 8;
    return p->width * pnm_channels(p) * (p->most > 255 ? 2 : 1);
}

/* Each plain value but the last takes at least a digit and a blank. */
static bool check_pnm_length(const struct pnm *p, ey_err *e)
{
    uint64_t left = p->at < p->file->n ? p->file->n - p->at : 0;
    uint64_t values = (uint64_t)p->width * p->height * pnm_channels(p);
    uint64_t least = p->plain ? (p->kind == 1 ? values : 2 * values - 1)
                              : (uint64_t)row_bytes(p) * p->height;
    return left >= least || fail_pnm(p, "too few bytes for the size it claims", e);
}

/* Scales to 255, rounding half to even like Python. */
static uint8_t scale_value(const struct pnm *p, uint32_t value)
{
    if (value > p->most) value = p->most;
    uint32_t whole = value * 255 / p->most, twice = 2 * (value * 255 % p->most);
    return (uint8_t)(whole + (twice > p->most || (twice == p->most && whole % 2)));
}

static void put_gray(uint8_t *rgb, const struct pnm *p, size_t i, uint8_t value)
{
    if (p->kind == 3) {
        rgb[i] = value;
        return;
    }
    rgb[3 * i] = value;
    rgb[3 * i + 1] = value;
    rgb[3 * i + 2] = value;
}

/* In a bitmap 1 is black, and digits need no blanks between them. */
static bool read_plain_values(struct pnm *p, uint8_t *rgb, ey_err *e)
{
    size_t n = (size_t)p->width * p->height * pnm_channels(p);
    for (size_t i = 0; i < n; i++) {
        uint32_t value;
        if (!pnm_read_number(p, p->kind == 1 ? 1 : DIGITS, &value)) return fail_pnm(p, NULL, e);
        put_gray(rgb, p, i, p->kind == 1 ? (value ? 0 : 255) : scale_value(p, value));
    }
    return true;
}

static void read_bit_rows(const struct pnm *p, uint8_t *rgb)
{
    const uint8_t *row = p->file->bytes + p->at;
    for (size_t y = 0; y < p->height; y++, row += row_bytes(p))
        for (size_t x = 0; x < p->width; x++)
            put_gray(rgb, p, y * p->width + x, row[x / 8] >> (7 - x % 8) & 1 ? 0 : 255);
}

static void read_values(const struct pnm *p, uint8_t *rgb)
{
    const uint8_t *from = p->file->bytes + p->at;
    size_t n = (size_t)p->width * p->height * pnm_channels(p);
    if (p->most > 255)
        for (size_t i = 0; i < n; i++)
            put_gray(rgb, p, i, scale_value(p, (uint32_t)from[2 * i] << 8 | from[2 * i + 1]));
    else
        for (size_t i = 0; i < n; i++)
            put_gray(rgb, p, i, scale_value(p, from[i]));
}

bool pnm_decode(struct image *out, const struct image_file *f, ey_err *e)
{
    struct pnm p = {.file = f};
    if (!read_pnm_header(&p, e) || !check_pnm_length(&p, e) ||
        !decoding_allowed(f, p.width, p.height, (uint64_t)p.width * p.height * 3 + ROUNDED_BYTES,
                          e))
        return false;
    uint8_t *rgb = pixels_alloc((int)p.width, (int)p.height, 3, e);
    if (!rgb) return false;
    if (p.plain && !read_plain_values(&p, rgb, e)) return free(rgb), false;
    if (!p.plain && p.kind == 1) read_bit_rows(&p, rgb);
    if (!p.plain && p.kind > 1) read_values(&p, rgb);
    *out = (struct image){.width = (int)p.width, .height = (int)p.height, .rgb = rgb};
    return true;
}
