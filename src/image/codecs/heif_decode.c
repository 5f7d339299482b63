/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes HEIC and AVIF with libheif in a sandboxed process (src/sandbox). Its memory and time
 * limits follow from the coded frames, because file headers may claim another size. */
#include <string.h>

#include "base/limits.h"
#include "image/codecs/codecs.h"
#include "image/codecs/heif_refs.h"
#include "image/codecs/heif_size.h"
#include "image/pixels.h"
#include "sandbox/sandbox.h"
#include "sandbox/sandbox_message.h"

/* Bytes per pixel that libheif 1.15 and its codecs need, rounded up from the lowest limits under
 * which photos of 1 to 3 megapixels decode: HEVC 5.6 (4:4:4: 6.7), AV1 13 (4:4:4: 16.3), alpha 3 to
 * 5 more. */
enum {
    FIXED_BYTES = 12 << 20, /* thread stacks, tables, the file's structure */
    HEVC_BYTES = 8,
    AV1_BYTES = 15,
    FULL_CHROMA_BYTES = 4,
    ALPHA_BYTES = 6,
};

/* Time limit in seconds, far above what the slowest machine needs. */
static const double LEAST_SECONDS = 10, SECONDS_PER_MEGAPIXEL = 0.5;

/* Frames may have more pixels than their image, because the last tiles of a grid extend beyond it,
 * but not several times as many. */
static const uint64_t FREE_CODED_PIXELS = 1 << 24;
enum { CODED_PER_PIXEL = 4 };

struct heif_format {
    const char *name;
    enum sandbox_decoder decoder;
    uint64_t bytes_per_pixel;
};

static bool check_heif_size(const struct image_file *f, const struct heif_size *s, ey_err *e)
{
    if (s->too_many)
        return ey_fail(e, EY_BAD_IMAGE,
                       "%s: the image has too many parts; convert it to JPEG or PNG", f->name);
    if (s->coded > CODED_PER_PIXEL * EY_MAX_IMAGE_PIXELS)
        return ey_fail(e, EY_BAD_IMAGE,
                       "%s: its frames have %llu pixels in total, which are too many", f->name,
                       (unsigned long long)s->coded);
    if (s->width == 0 || s->height == 0) return true; /* libheif reports what is wrong */
    if (s->coded > FREE_CODED_PIXELS && s->coded / CODED_PER_PIXEL > s->width * s->height)
        return ey_fail(e, EY_BAD_IMAGE,
                       "%s: frames of %llu pixels for an image of %llux%llu are not plausible",
                       f->name, (unsigned long long)s->coded, (unsigned long long)s->width,
                       (unsigned long long)s->height);
    return size_allowed(f, s->width, s->height, e);
}

/* Returns the pixels of the canvas or of the largest frame, whichever has more. */
static uint64_t working_pixels(const struct heif_size *s)
{
    uint64_t canvas = s->width * s->height;
    return canvas > s->largest ? canvas : s->largest;
}

static struct sandbox_limits heif_limits(const struct image_file *f, const struct heif_size *s,
                                         const struct heif_format *format)
{
    uint64_t pixels = working_pixels(s);
    uint64_t each = format->bytes_per_pixel + (s->full_chroma ? FULL_CHROMA_BYTES : 0) +
                    (s->alpha ? ALPHA_BYTES : 0);
    if (s->deep) each *= 2;
    const struct image_budget *budget = f->budget;
    return (struct sandbox_limits){.memory = FIXED_BYTES + pixels * each,
                                   .output = BITMAP_HEADER_BYTES + pixels * (s->alpha ? 4 : 3),
                                   .seconds = LEAST_SECONDS +
                                              SECONDS_PER_MEGAPIXEL * (double)s->coded / 1e6,
                                   .gone = budget ? budget->gone : NULL,
                                   .user = budget ? budget->user : NULL};
}

/* Fails with "NAME: this FORMAT: the sandbox's message". */
static bool fail_heif(const struct image_file *f, const struct heif_format *format, ey_err *e)
{
    return ey_fail_within(e, "%s: this %s", f->name, format->name);
}

static bool decode_source(struct image *out, const struct image_file *f,
                          const struct heif_source *source, const struct heif_format *format,
                          ey_err *e)
{
    struct sandbox_image image;
    struct heif_size size = heif_size_of(source->bytes, source->n);
    if (!check_heif_size(f, &size, e)) return false;
    struct sandbox_limits limits = heif_limits(f, &size, format);
    uint64_t copies = source->rewritten.capacity + source->n;
    if (!decoding_allowed(f, size.width, size.height, copies + limits.output + limits.memory, e))
        return false;
    if (!sandbox_decode(&image, format->decoder, source->bytes, source->n, &limits, e))
        return fail_heif(f, format, e);
    return image_from_bitmap(out, &image,
                             source->premultiplied ? ALPHA_PREMULTIPLIED : ALPHA_STRAIGHT, e);
}

static bool decode_heif(struct image *out, const struct image_file *f,
                        const struct heif_format *format, ey_err *e)
{
    struct heif_source source;
    bool ok = heif_read_references(&source, f, e) && decode_source(out, f, &source, format, e);
    buf_free(&source.rewritten);
    return ok;
}

bool heic_decode(struct image *out, const struct image_file *f, ey_err *e)
{
    static const struct heif_format format = {"HEIC", SANDBOX_HEIC, HEVC_BYTES};
    return decode_heif(out, f, &format, e);
}

bool avif_decode(struct image *out, const struct image_file *f, ey_err *e)
{
    static const struct heif_format format = {"AVIF", SANDBOX_AVIF, AV1_BYTES};
    return decode_heif(out, f, &format, e);
}
