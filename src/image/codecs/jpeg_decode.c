/* SPDX-License-Identifier: Apache-2.0 */
/* JPEG by the TurboJPEG API: accurate DCT and smooth chroma upsampling, which is what Pillow's
 * decoder does, bit for bit. Our own walk over the markers finds EXIF and XMP, the number of scans
 * (a progressive file of a few kilobytes can ask for hundreds of passes over a huge image) and
 * whether the end is there. */
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>

#include "image/codecs/codecs.h"
#include "image/orient.h"
#include "image/pixels.h"

/* Huffman coding spends at least one bit on a block of 8x8 pixels. */
enum { PIXELS_PER_BYTE = 512 };
/* Passes times pixels: 470 scans of a 12-megapixel photo, 32 of the largest image; encoders write
 * about 10. */
static const uint64_t MAX_SCANNED_PIXELS = (uint64_t)178956970 * 32;

struct jpeg_markers {
    struct orientation_source exif, xmp;
    uint64_t scans;
    int sequential_components; /* of a frame coded sequentially; 0: another coding */
    bool one_scan;             /* the first scan has all of a sequential frame */
    size_t scan_end;           /* where the first scan's data ends; 0: no scan */
    bool ended;                /* an end-of-image marker was seen */
};

enum {
    SOF0 = 0xc0,
    SOF1 = 0xc1,
    RST0 = 0xd0,
    RST7 = 0xd7,
    SOI = 0xd8,
    EOI = 0xd9,
    SOS = 0xda,
    APP1 = 0xe1
};
static const char exif_header[6] = "Exif\0", xmp_header[29] = "http://ns.adobe.com/xap/1.0/";

/* Restarts, and the stuffing of entropy-coded data. */
static bool continues_scan(int marker)
{
    return marker == 0x00 || (marker >= RST0 && marker <= RST7);
}

static bool has_no_length(int marker)
{
    return continues_scan(marker) || marker == 0x01 || marker == SOI;
}

/* The first EXIF and the last XMP count, as in Pillow. */
static void note_jpeg_metadata(struct jpeg_markers *markers, const uint8_t *body, size_t n)
{
    if (!markers->exif.n && n > sizeof(exif_header) &&
        memcmp(body, exif_header, sizeof(exif_header)) == 0)
        markers->exif = (struct orientation_source){body, n};
    if (n > sizeof(xmp_header) && memcmp(body, xmp_header, sizeof(xmp_header)) == 0)
        markers->xmp = (struct orientation_source){body + sizeof(xmp_header),
                                                   n - sizeof(xmp_header)};
}

static void note_jpeg_segment(struct jpeg_markers *markers, int marker, const uint8_t *body,
                              size_t n)
{
    if ((marker == SOF0 || marker == SOF1) && n > 5) markers->sequential_components = body[5];
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

/* Pillow takes every CMYK JPEG as Adobe's inverted kind: c here is 255 - C. Its conversion, with
 * its rounding: R = K' - round(C·K'/255), K' = 255 - K. */
static void rgb_from_inverted_cmyk(uint8_t *pixels, size_t n)
{
    /* in place: each pixel is written before those that are still to be read */
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

static bool read_jpeg_header(struct jpeg_header *h, tjhandle jpeg, const struct image_file *f,
                             const struct jpeg_markers *markers, ey_err *e)
{
    *h = (struct jpeg_header){.subsampling = -1, .colorspace = -1};
    bool failed = tjDecompressHeader3(jpeg, f->bytes, f->n, &h->width, &h->height, &h->subsampling,
                                      &h->colorspace);
    /* What counts is the values: it fails on sampling factors it has no name for, which the decoder
     * can do, and succeeds on a file that ends before its image. */
    if (h->width < 1 || h->height < 1 || h->colorspace < 0)
        return fail_damaged(f, "JPEG", failed ? tjGetErrorStr2(jpeg) : NULL, e);
    if (!size_allowed(f, (uint64_t)h->width, (uint64_t)h->height, e)) return false;
    uint64_t pixels = (uint64_t)h->width * (uint64_t)h->height;
    if (!size_plausible(f, "JPEG", pixels, PIXELS_PER_BYTE, e)) return false;
    if (pixels * markers->scans <= MAX_SCANNED_PIXELS) return true;
    return ey_fail(e, EY_BAD_IMAGE, "%s: a JPEG of %llu passes over %llu pixels, which is too many",
                   f->name, (unsigned long long)markers->scans, (unsigned long long)pixels);
}

enum { JPEG_FLAGS = TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS };

/* libjpeg's words, for which TurboJPEG has no code, where the last block was decoded before the
 * scan's data ended (at the end marker, or at a restart that stood in what follows). Missing blocks
 * make it end in another warning. */
static const char all_decoded[] = "extraneous bytes before marker 0xd";

/* Some phones' panoramas end their scan without a marker and go on with data of their own. What
 * their one scan has is decoded with an end put behind it; false when pixels are missing. */
static bool decode_without_end(uint8_t *pixels, tjhandle jpeg, const struct jpeg_header *h,
                               int format, const struct image_file *f,
                               const struct jpeg_markers *markers)
{
    size_t n = markers->scan_end;
    if (!markers->one_scan || (n < f->n && f->bytes[n + 1] == EOI)) return false;
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

/* Warnings are about damage that a decoder can live with, as Pillow does; a missing end is among
 * them only where no pixel is missing. */
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
    bool cmyk = h.colorspace == TJCS_CMYK || h.colorspace == TJCS_YCCK;
    if (!(pixels = pixels_alloc(h.width, h.height, cmyk ? 4 : 3, e))) goto done;
    if (!decode_jpeg_pixels(pixels, jpeg, &h, cmyk ? TJPF_CMYK : TJPF_RGB, f, &markers, e))
        goto done;
    if (cmyk) rgb_from_inverted_cmyk(pixels, (size_t)h.width * (size_t)h.height);
    *out = (struct image){h.width, h.height, pixels};
    pixels = NULL;
    ok = image_turn_upright(out, image_orientation(&markers.exif, &markers.xmp), e);
    if (!ok) image_free(out);
done:
    free(pixels);
    tjDestroy(jpeg);
    return ok;
}
