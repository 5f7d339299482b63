/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes JPEG with TurboJPEG: accurate DCT and smooth chroma upsampling, bit-identical to Pillow.
 * A marker walk of our own finds EXIF and XMP, the number of scans (a progressive file of a few
 * kilobytes can demand hundreds of passes over a huge image), and whether the end marker is
 * present. */
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>

#include "image/codecs/codecs.h"
#include "image/orient.h"
#include "image/pixels.h"

/* Huffman coding needs at least one bit per 8x8 block. */
enum { PIXELS_PER_BYTE = 512 };
/* Limit of scans times pixels: 470 scans of a 12-megapixel photo, or 32 of the largest image.
 * Encoders write about 10. */
static const uint64_t MAX_SCANNED_PIXELS = (uint64_t)178956970 * 32;

struct jpeg_markers {
    struct orientation_source exif, xmp;
    uint64_t scans;
    uint64_t coefficients; /* of all components; matters if libjpeg buffers the whole image */
    bool progressive;
    int sequential_components; /* components of a sequential frame; 0 for other codings */
    bool one_scan;             /* the first scan has all components of a sequential frame */
    size_t scan_end;           /* offset of the end of the first scan's data; 0: no scan */
    bool ended;                /* an end-of-image marker was seen */
};

enum {
    SOF0 = 0xc0,
    SOF1 = 0xc1,
    SOF15 = 0xcf,
    DHT = 0xc4,
    JPG = 0xc8,
    DAC = 0xcc,
    RST0 = 0xd0,
    RST7 = 0xd7,
    SOI = 0xd8,
    EOI = 0xd9,
    SOS = 0xda,
    APP1 = 0xe1
};

/* libjpeg-turbo's allocations besides pixels and coefficients: a fixed part, and per column the
 * rows of all components before and after upsampling. */
enum { LIBJPEG_BYTES = 512 << 10, LIBJPEG_BYTES_PER_COLUMN = 256 };

static const char exif_header[6] = "Exif\0", xmp_header[29] = "http://ns.adobe.com/xap/1.0/";

/* Whether a marker is part of entropy-coded data: a restart marker, or 0, which escapes the data
 * byte 0xff. */
static bool continues_scan(int marker)
{
    return marker == 0x00 || (marker >= RST0 && marker <= RST7);
}

static bool has_no_length(int marker)
{
    return continues_scan(marker) || marker == 0x01 || marker == SOI;
}

/* Uses the first EXIF and the last XMP, like Pillow. */
static void note_jpeg_metadata(struct jpeg_markers *markers, const uint8_t *body, size_t n)
{
    if (!markers->exif.n && n > sizeof(exif_header) &&
        memcmp(body, exif_header, sizeof(exif_header)) == 0)
        markers->exif = (struct orientation_source){body, n};
    if (n > sizeof(xmp_header) && memcmp(body, xmp_header, sizeof(xmp_header)) == 0)
        markers->xmp = (struct orientation_source){body + sizeof(xmp_header),
                                                   n - sizeof(xmp_header)};
}

static bool is_frame_header(int marker)
{
    return marker >= SOF0 && marker <= SOF15 && marker != DHT && marker != JPG && marker != DAC;
}

static uint64_t rounded_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Returns the number of coefficients of a frame, padded to whole 8x8 blocks and MCUs. */
static uint64_t frame_coefficients(const uint8_t *body, size_t n)
{
    uint64_t most_h = 1, most_v = 1, total = 0;
    size_t components = n >= 6 ? body[5] : 0;
    if (components > 4 || n < 6 + 3 * components) return 0;
    uint64_t height = (uint64_t)body[1] << 8 | body[2], width = (uint64_t)body[3] << 8 | body[4];
    for (size_t i = 0; i < components; i++) {
        uint64_t h = body[7 + 3 * i] >> 4, v = body[7 + 3 * i] & 15;
        if (h > most_h) most_h = h;
        if (v > most_v) most_v = v;
    }
    uint64_t units = rounded_up(width, 8 * most_h) / (8 * most_h) *
                     (rounded_up(height, 8 * most_v) / (8 * most_v));
    for (size_t i = 0; i < components; i++)
        total += units * (body[7 + 3 * i] >> 4) * (body[7 + 3 * i] & 15) * 64;
    return total;
}

static void note_jpeg_segment(struct jpeg_markers *markers, int marker, const uint8_t *body,
                              size_t n)
{
    if ((marker == SOF0 || marker == SOF1) && n > 5) markers->sequential_components = body[5];
    if (is_frame_header(marker)) {
        uint64_t n_coefficients = frame_coefficients(body, n);
        if (n_coefficients > markers->coefficients) markers->coefficients = n_coefficients;
        markers->progressive |= (marker & 3) == 2;
    }
    if (marker == APP1 && markers->scans == 0) note_jpeg_metadata(markers, body, n);
    if (marker != SOS) return;
    if (markers->scans == 0 && n > 0)
        markers->one_scan = body[0] > 0 && body[0] == markers->sequential_components;
    markers->scans++;
}

static struct jpeg_markers read_jpeg_markers(const struct image_file *f)
{
    struct jpeg_markers markers = {0};
    for (size_t at = 2; at + 2 <= f->n;) {
        const uint8_t *next = memchr(f->bytes + at, 0xff, f->n - at - 1);
        if (!next) break;
        at = (size_t)(next - f->bytes);
        int marker = next[1];
        if (markers.scans && !markers.scan_end && marker != 0xff && !continues_scan(marker))
            markers.scan_end = at;
        markers.ended = marker == EOI;
        if (markers.ended) break;
        if (marker == 0xff || has_no_length(marker)) {
            at += marker == 0xff ? 1 : 2;
            continue;
        }
        if (f->n - at < 4) break;
        size_t length = (size_t)next[2] << 8 | next[3];
        if (length < 2 || length > f->n - at - 2) break;
        note_jpeg_segment(&markers, marker, next + 4, length - 2);
        at += 2 + length;
    }
    if (markers.scans && !markers.scan_end) markers.scan_end = f->n;
    return markers;
}

/* Converts like Pillow, which treats every CMYK JPEG as Adobe's inverted kind: stored c is 255 - C.
 * Rounds like Pillow, too: R = K' - round(C·K'/255), K' = 255 - K. */
static void rgb_from_inverted_cmyk(uint8_t *pixels, size_t n)
{
    /* in place: writes never overtake reads */
    for (size_t i = 0; i < n; i++) {
        unsigned k = pixels[4 * i + 3], rgb[3];
        for (size_t c = 0; c < 3; c++)
            rgb[c] = k - ((255u - pixels[4 * i + c]) * k + 127) / 255;
        for (size_t c = 0; c < 3; c++)
            pixels[3 * i + c] = (uint8_t)rgb[c];
    }
}

struct jpeg_header {
    int width, height, subsampling, colorspace;
};

static bool is_cmyk(const struct jpeg_header *h)
{
    return h->colorspace == TJCS_CMYK || h->colorspace == TJCS_YCCK;
}

/* Whether decode_without_end() may be tried: the first scan has all components, and no end marker
 * follows it. */
static bool may_lack_end(const struct image_file *f, const struct jpeg_markers *markers)
{
    size_t n = markers->scan_end;
    return markers->one_scan && !(n < f->n && f->bytes[n + 1] == EOI);
}

/* Whether libjpeg buffers all coefficients (16 bits each): it does unless the only scan of a
 * sequential frame has all components. */
static bool keeps_coefficients(const struct jpeg_markers *markers)
{
    return markers->scans > 1 || markers->progressive || !markers->one_scan;
}

/* Returns the larger of two peaks: pixels with coefficients, or pixels before and after rotation.
 */
static uint64_t jpeg_decoding_bytes(const struct jpeg_header *h, const struct image_file *f,
                                    const struct jpeg_markers *markers)
{
    uint64_t pixels = (uint64_t)h->width * (uint64_t)h->height;
    uint64_t decoded = (uint64_t)h->width * LIBJPEG_BYTES_PER_COLUMN +
                       (keeps_coefficients(markers) ? 2 * markers->coefficients : 0);
    uint64_t turned = image_orientation(&markers->exif, &markers->xmp) > 1 ? 3 * pixels : 0;
    uint64_t copied = may_lack_end(f, markers) ? markers->scan_end + 2 : 0;
    return LIBJPEG_BYTES + copied + pixels * (is_cmyk(h) ? 4 : 3) +
           (decoded > turned ? decoded : turned);
}

static bool read_jpeg_header(struct jpeg_header *h, tjhandle jpeg, const struct image_file *f,
                             const struct jpeg_markers *markers, ey_err *e)
{
    *h = (struct jpeg_header){.subsampling = -1, .colorspace = -1};
    bool failed = tjDecompressHeader3(jpeg, f->bytes, f->n, &h->width, &h->height, &h->subsampling,
                                      &h->colorspace);
    /* Check the values, not the return code: it fails on unnamed sampling factors, which the
     * decoder supports, and succeeds on a file that ends before its image. */
    if (h->width < 1 || h->height < 1 || h->colorspace < 0)
        return fail_damaged(f, "JPEG", failed ? tjGetErrorStr2(jpeg) : NULL, e);
    if (!size_allowed(f, (uint64_t)h->width, (uint64_t)h->height, e)) return false;
    uint64_t pixels = (uint64_t)h->width * (uint64_t)h->height;
    if (!size_plausible(f, "JPEG", pixels, PIXELS_PER_BYTE, e)) return false;
    if (pixels * markers->scans <= MAX_SCANNED_PIXELS)
        return decoding_allowed(f, (uint64_t)h->width, (uint64_t)h->height,
                                jpeg_decoding_bytes(h, f, markers), e);
    return ey_fail(e, EY_BAD_IMAGE,
                   "%s: a JPEG with %llu passes over %llu pixels is too expensive to decode",
                   f->name, (unsigned long long)markers->scans, (unsigned long long)pixels);
}

enum { JPEG_FLAGS = TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS };

/* The text of libjpeg's warning that the last block was decoded before the scan's data ended (at
 * the end marker, or at a restart marker in the data that follows). TurboJPEG has no code for it.
 * If blocks are missing, libjpeg gives another warning. */
static const char all_decoded[] = "extraneous bytes before marker 0xd";

/* Decodes panoramas of some phones, which have private data after the only scan instead of an end
 * marker: appends an end marker. Returns false if pixels are missing. */
static bool decode_without_end(uint8_t *pixels, tjhandle jpeg, const struct jpeg_header *h,
                               int format, const struct image_file *f,
                               const struct jpeg_markers *markers)
{
    size_t n = markers->scan_end;
    if (!may_lack_end(f, markers)) return false;
    uint8_t *ended = malloc(n + 2);
    if (!ended) return false;
    memcpy(ended, f->bytes, n);
    ended[n] = 0xff;
    ended[n + 1] = EOI;
    bool ok = tjDecompress2(jpeg, ended, n + 2, pixels, h->width, 0, h->height, format,
                            JPEG_FLAGS) == 0 ||
              (tjGetErrorCode(jpeg) == TJERR_WARNING && strstr(tjGetErrorStr2(jpeg), all_decoded));
    free(ended);
    return ok;
}

/* Ignores warnings like Pillow, except if the end marker and pixels are missing. */
static bool decode_jpeg_pixels(uint8_t *pixels, tjhandle jpeg, const struct jpeg_header *h,
                               int format, const struct image_file *f,
                               const struct jpeg_markers *markers, ey_err *e)
{
    if (tjDecompress2(jpeg, f->bytes, f->n, pixels, h->width, 0, h->height, format, JPEG_FLAGS) ==
        0)
        return true;
    if (tjGetErrorCode(jpeg) == TJERR_WARNING && markers->ended) return true;
    if (decode_without_end(pixels, jpeg, h, format, f, markers)) return true;
    return fail_damaged(f, "JPEG", tjGetErrorStr2(jpeg), e);
}

bool jpeg_decode(struct image *out, const struct image_file *f, ey_err *e)
{
    bool ok = false;
    uint8_t *pixels = NULL;
    struct jpeg_header h;
    struct jpeg_markers markers = read_jpeg_markers(f);
    tjhandle jpeg = tjInitDecompress();
    if (!jpeg) return ey_fail_memory(e, "the JPEG decoder", 0);
    if (!read_jpeg_header(&h, jpeg, f, &markers, e)) goto done;
    bool cmyk = is_cmyk(&h);
    if (!(pixels = pixels_alloc(h.width, h.height, cmyk ? 4 : 3, e))) goto done;
    if (!decode_jpeg_pixels(pixels, jpeg, &h, cmyk ? TJPF_CMYK : TJPF_RGB, f, &markers, e))
        goto done;
    if (cmyk) rgb_from_inverted_cmyk(pixels, (size_t)h.width * (size_t)h.height);
    *out = (struct image){.width = h.width, .height = h.height, .rgb = pixels};
    pixels = NULL;
    ok = image_turn_upright(out, image_orientation(&markers.exif, &markers.xmp), e);
    if (!ok) image_free(out);
done:
    free(pixels);
    tjDestroy(jpeg);
    return ok;
}
