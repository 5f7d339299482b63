/* SPDX-License-Identifier: Apache-2.0 */
/* Identifies a file by its leading bytes alone: a format that eyelet decodes, or another that the
 * error names. */
#include "image/sniff.h"

#include <string.h>

#include "base/utf8.h"

struct signature {
    size_t offset;
    const char *magic;
    size_t n;
};

/* A string literal with its length. */
#define BYTES_AT(offset, literal)            \
    {                                        \
        offset, literal, sizeof(literal) - 1 \
    }

static const struct {
    struct signature first, second; /* both must match; `second` may be empty */
    decode_fn *decode;
} decoded_formats[] = {
    {BYTES_AT(0, "\xff\xd8\xff"), {0}, jpeg_decode},
    {BYTES_AT(0, "\x89PNG\r\n\x1a\n"), {0}, png_decode},
    {BYTES_AT(0, "RIFF"), BYTES_AT(8, "WEBP"), webp_decode},
    {BYTES_AT(0, "GIF87a"), {0}, gif_decode},
    {BYTES_AT(0, "GIF89a"), {0}, gif_decode},
    {BYTES_AT(0, "II*\0"), {0}, tiff_decode},
    {BYTES_AT(0, "MM\0*"), {0}, tiff_decode},
    {BYTES_AT(0, "II+\0"), {0}, tiff_decode},
    {BYTES_AT(0, "MM\0+"), {0}, tiff_decode},
    {BYTES_AT(0, "BM"), BYTES_AT(6, "\0\0\0\0"), bmp_decode},
    /* some writers use the reserved bytes 6 to 9 */
    {BYTES_AT(0, "BM"), BYTES_AT(14, "\x28\0\0\0"), bmp_decode},
};

#define CONVERT "convert it to JPEG or PNG"
#define PICK_FRAME "save a frame of it as JPEG or PNG"

static const struct {
    struct signature first, second;
    const char *what, *advice;
} refused_formats[] = {
    {BYTES_AT(0, "%PDF"),
     {0},
     "a PDF document",
     "send its pages as images, or the PDF as a file part"},
    {BYTES_AT(0, "%!PS"), {0}, "a PostScript document", "convert its pages to JPEG or PNG"},
    {BYTES_AT(0, "8BPS"), {0}, "a PSD file (Photoshop)", CONVERT},
    {BYTES_AT(0, "gimp xcf"), {0}, "an XCF file (GIMP)", CONVERT},
    {BYTES_AT(0, "\0\0\1\0"), {0}, "an ICO file", CONVERT},
    {BYTES_AT(0, "\0\0\2\0"), {0}, "a CUR file", CONVERT},
    {BYTES_AT(0, "\0\0\0\x0cjP  "), {0}, "a JPEG 2000 file", CONVERT},
    {BYTES_AT(0, "\xff\x4f\xff\x51"), {0}, "a JPEG 2000 file", CONVERT},
    {BYTES_AT(0, "\0\0\0\x0cJXL "), {0}, "a JPEG XL file", CONVERT},
    {BYTES_AT(0, "\xff\x0a"), {0}, "a JPEG XL file", CONVERT},
    {BYTES_AT(0, "\x76\x2f\x31\x01"), {0}, "an OpenEXR file", CONVERT},
    {BYTES_AT(0, "DDS "), {0}, "a DDS file", CONVERT},
    {BYTES_AT(0, "qoif"), {0}, "a QOI file", CONVERT},
    {BYTES_AT(0, "PK\3\4"), {0}, "a ZIP archive", "unpack it first"},
    {BYTES_AT(0, "\x1f\x8b"), {0}, "a gzip file", "unpack it first"},
    {BYTES_AT(0, "\x1a\x45\xdf\xa3"), {0}, "a video (WebM or Matroska)", PICK_FRAME},
    {BYTES_AT(0, "RIFF"), BYTES_AT(8, "AVI "), "a video (AVI)", PICK_FRAME},
    {BYTES_AT(0, "RIFF"), BYTES_AT(8, "WAVE"), "a sound (WAV)", "send an image"},
    {BYTES_AT(0, "FLV\1"), {0}, "a video (FLV)", PICK_FRAME},
    {BYTES_AT(0, "\0\0\1\xba"), {0}, "a video (MPEG)", PICK_FRAME},
    {BYTES_AT(0, "\0\0\1\xb3"), {0}, "a video (MPEG)", PICK_FRAME},
};

static bool matches(const struct image_file *f, const struct signature *s)
{
    return f->n >= s->offset + s->n &&
           (s->n == 0 || memcmp(f->bytes + s->offset, s->magic, s->n) == 0);
}

/* Whether the brand at p is in `list` (four-letter names separated by blanks). */
static bool brand_in(const uint8_t *p, const char *list)
{
    for (; *list; list += 5)
        if (memcmp(p, list, 4) == 0) return true;
    return false;
}

/* Whether the file begins with P1 to P6 and a blank or a comment. */
static bool is_pnm(const struct image_file *f)
{
    return f->n >= 3 && f->bytes[0] == 'P' && f->bytes[1] >= '1' && f->bytes[1] <= '6' &&
           memchr(" \t\r\n#", f->bytes[2], 5);
}

/* Selects the decoder of an ISO media file by the brands in its "ftyp" box: the major brand, then
 * the compatible ones. */
static decode_fn *decoder_for_iso(const struct image_file *f)
{
    if (f->n < 12 || memcmp(f->bytes + 4, "ftyp", 4) != 0) return NULL;
    size_t size = (size_t)f->bytes[2] << 8 | f->bytes[3];
    if (f->bytes[0] || f->bytes[1] || size > f->n) size = f->n;
    decode_fn *found = NULL;
    /* bytes 12 to 15 are a version number */
    for (size_t at = 8; at + 4 <= size; at += at == 8 ? 8 : 4) {
        const uint8_t *brand = f->bytes + at;
        if (brand_in(brand, "avif avis ")) return avif_decode;
        if (brand_in(brand, "heic heix hevc hevx heim heis hevm hevs ")) return heic_decode;
        if (brand_in(brand, "mif1 msf1 ")) found = heic_decode;
    }
    return found;
}

/* Whether the first kilobyte has only text characters. The last character may be incomplete. */
static bool looks_like_text(const struct image_file *f)
{
    size_t n = f->n < 1024 ? f->n : 1024;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int length = utf8_decode((const char *)f->bytes + i, n - i, &cp);
        if (length == -1) return true;
        if (length == 0 || (cp < 0x20 && !(cp >= '\t' && cp <= '\r') && cp != 0x1b)) return false;
        i += (size_t)length;
    }
    return true;
}

static bool text_has(const struct image_file *f, const char *word)
{
    size_t n = f->n < 1024 ? f->n : 1024, length = strlen(word);
    for (size_t i = 0; i + length <= n; i++)
        if (strncasecmp((const char *)f->bytes + i, word, length) == 0) return true;
    return false;
}

static bool fail_text(const struct image_file *f, ey_err *e)
{
    if (text_has(f, "<svg"))
        return ey_fail(e, EY_BAD_IMAGE, "%s: an SVG drawing, which eyelet does not read; " CONVERT,
                       f->name);
    if (text_has(f, "<html") || text_has(f, "<!doctype html"))
        return ey_fail(e, EY_BAD_IMAGE,
                       "%s: looks like text, not an image (a web page; give the image itself)",
                       f->name);
    return ey_fail(e, EY_BAD_IMAGE, "%s: looks like text, not an image", f->name);
}

static bool fail_unknown_format(const struct image_file *f, ey_err *e)
{
    for (size_t i = 0; i < sizeof(refused_formats) / sizeof(refused_formats[0]); i++)
        if (matches(f, &refused_formats[i].first) && matches(f, &refused_formats[i].second))
            return ey_fail(e, EY_BAD_IMAGE, "%s: %s, which eyelet does not read; %s", f->name,
                           refused_formats[i].what, refused_formats[i].advice);
    if (f->n >= 12 && memcmp(f->bytes + 4, "ftyp", 4) == 0)
        return ey_fail(e, EY_BAD_IMAGE,
                       "%s: a video (MP4 or QuickTime), which eyelet does not read; " PICK_FRAME,
                       f->name);
    if (looks_like_text(f)) return fail_text(f, e);
    return ey_fail(
        e, EY_BAD_IMAGE,
        "%s: not an image in a format eyelet knows (JPEG, PNG, WebP, GIF, HEIC, AVIF, TIFF, "
        "BMP, PNM); it begins with %02x %02x",
        f->name, f->bytes[0], f->n > 1 ? f->bytes[1] : 0);
}

decode_fn *decoder_for(const struct image_file *f, ey_err *e)
{
    for (size_t i = 0; i < sizeof(decoded_formats) / sizeof(decoded_formats[0]); i++)
        if (matches(f, &decoded_formats[i].first) && matches(f, &decoded_formats[i].second))
            return decoded_formats[i].decode;
    decode_fn *found = is_pnm(f) ? pnm_decode : decoder_for_iso(f);
    if (!found) fail_unknown_format(f, e);
    return found;
}
