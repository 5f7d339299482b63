/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes still WebP images and the first frame of animations with libwebp, with alpha on white.
 *
 * Lossless data, which includes alpha, is decoded in a sandboxed process (src/sandbox): 2.5 bytes
 * of a file can demand a Huffman table of 20 KB, which no header announces. */
#include <stdlib.h>
#include <string.h>
#include <webp/decode.h>
#include <webp/demux.h>

#include "image/codecs/codecs.h"
#include "image/orient.h"
#include "image/pixels.h"
#include "sandbox/sandbox.h"
#include "sandbox/sandbox_message.h"

enum { LOSSY_FORMAT = 1 }; /* of WebPBitstreamFeatures */
/* libwebp's allocations besides the frame's pixels: a fixed part, and bytes per column. */
enum { LIBWEBP_BYTES = 512 << 10, LIBWEBP_BYTES_PER_COLUMN = 256 };

struct webp_frame {
    const uint8_t *bytes;
    size_t n;
    int x, y, width, height;
    bool lossless; /* the image or its alpha */
};

struct webp_canvas {
    int width, height, channels, orientation;
    uint8_t *pixels;
};

/* Decodes a frame into its position on the canvas. */
static bool decode_frame(const struct webp_canvas *c, const struct webp_frame *frame)
{
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config)) return false;
    size_t stride = (size_t)c->width * (size_t)c->channels;
    size_t offset = (size_t)frame->y * stride + (size_t)frame->x * (size_t)c->channels;
    config.output.colorspace = c->channels == 4 ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = c->pixels + offset;
    config.output.u.RGBA.stride = (int)stride;
    config.output.u.RGBA.size = stride * (size_t)c->height - offset;
    return WebPDecode(frame->bytes, frame->n, &config) == VP8_STATUS_OK;
}

static bool frame_fits_canvas(const struct webp_canvas *c, const struct webp_frame *frame)
{
    return frame->x >= 0 && frame->y >= 0 && frame->width > 0 && frame->height > 0 &&
           frame->width <= c->width - frame->x && frame->height <= c->height - frame->y;
}

/* ---- lossless frames ---- */

/* Returns an upper bound of the number of Huffman table groups: the most that libwebp's encoder
 * makes, one per 20 bits of the file, or one per 4x4 pixels, whichever is least. */
static uint64_t table_groups(const struct webp_frame *frame)
{
    enum { MOST = 2600, SPARE = 2 };
    uint64_t tiles = ((uint64_t)frame->width + 3) / 4 * (((uint64_t)frame->height + 3) / 4);
    uint64_t coded = (uint64_t)frame->n * 8 / 20;
    uint64_t least = tiles < coded ? tiles : coded;
    return (least < MOST ? least : MOST) + SPARE;
}

/* libwebp holds a frame's pixels as ARGB, images of transforms with a quarter of that size, and an
 * alpha plane. With an 11-bit color cache, a table group has 5004 entries of 4 bytes. */
static struct sandbox_limits lossless_limits(const struct image_file *f,
                                             const struct webp_canvas *c,
                                             const struct webp_frame *frame)
{
    enum { FIXED_BYTES = 4 << 20, PIXEL_BYTES = 6, GROUP_BYTES = 5004 * 4 + 600 };
    static const double LEAST_SECONDS = 10, SECONDS_PER_MEGAPIXEL = 0.5;
    uint64_t pixels = (uint64_t)frame->width * (uint64_t)frame->height;
    const struct image_budget *budget = f->budget;
    return (struct sandbox_limits){
        .memory = FIXED_BYTES + pixels * PIXEL_BYTES + table_groups(frame) * GROUP_BYTES +
                  (uint64_t)frame->width * LIBWEBP_BYTES_PER_COLUMN,
        .output = BITMAP_HEADER_BYTES + pixels * (uint64_t)c->channels,
        .seconds = LEAST_SECONDS + SECONDS_PER_MEGAPIXEL * (double)pixels / 1e6,
        .gone = budget ? budget->gone : NULL,
        .user = budget ? budget->user : NULL};
}

static void copy_frame(const struct webp_canvas *c, const struct webp_frame *frame,
                       const uint8_t *pixels)
{
    size_t channels = (size_t)c->channels, row = (size_t)frame->width * channels;
    size_t stride = (size_t)c->width * channels;
    uint8_t *to = c->pixels + (size_t)frame->y * stride + (size_t)frame->x * channels;
    for (int y = 0; y < frame->height; y++)
        memcpy(to + (size_t)y * stride, pixels + (size_t)y * row, row);
}

/* Decodes a frame in the sandbox, without a compute turn while it waits. */
static bool decode_frame_apart(struct sandbox_image *image, const struct webp_canvas *c,
                               const struct webp_frame *frame, const struct image_file *f,
                               ey_err *e)
{
    struct sandbox_limits limits = lossless_limits(f, c, frame);
    const bool given = image_budget_give_turn(f->budget);
    if (!sandbox_decode(image, c->channels == 4 ? SANDBOX_WEBP_RGBA : SANDBOX_WEBP_RGB,
                        frame->bytes, frame->n, &limits, e))
        return ey_fail_within(e, "%s: this WebP", f->name);
    const bool valid = image->width == frame->width && image->height == frame->height &&
                       image->channels == c->channels;
    if (valid && image_budget_take_turn(f->budget, given, e)) return true;
    sandbox_image_close(image);
    return valid ? false : fail_damaged(f, "WebP", NULL, e);
}

/* ---- the canvas ---- */

/* Whether the sandbox's bitmap is the whole image, so that no canvas is needed. */
static bool stays_in_bitmap(const struct webp_canvas *c, const struct webp_frame *frame)
{
    return frame->lossless && frame->width == c->width && frame->height == c->height;
}

/* Returns the bytes of the canvas, if there is one, plus the larger of decoding the frame and the
 * rotated canvas. */
static uint64_t webp_decoding_bytes(const struct image_file *f, const struct webp_canvas *c,
                                    const struct webp_frame *frame)
{
    uint64_t canvas = (uint64_t)c->width * (uint64_t)c->height;
    uint64_t decoded = LIBWEBP_BYTES + (uint64_t)frame->width * LIBWEBP_BYTES_PER_COLUMN;
    uint64_t turned = c->orientation > 1 ? canvas * 3 : 0;
    if (frame->lossless) {
        struct sandbox_limits limits = lossless_limits(f, c, frame);
        decoded = limits.memory + limits.output + frame->n;
    }
    uint64_t pixels = canvas * (uint64_t)c->channels;
    if (stays_in_bitmap(c, frame)) pixels = c->channels == 4 ? canvas * 3 : 0;
    return pixels + (decoded > turned ? decoded : turned);
}

static bool decode_frame_on(const struct webp_canvas *c, const struct webp_frame *frame,
                            const struct image_file *f, ey_err *e)
{
    struct sandbox_image image;
    if (!frame->lossless) return decode_frame(c, frame) || fail_damaged(f, "WebP", NULL, e);
    if (!decode_frame_apart(&image, c, frame, f, e)) return false;
    copy_frame(c, frame, image.pixels);
    sandbox_image_close(&image);
    return true;
}

/* Pixels outside the frame are transparent, or black in a file without alpha, as in libwebp's
 * animation decoder and Pillow. */
static bool decode_frame_on_canvas(struct image *out, struct webp_canvas *c,
                                   const struct webp_frame *frame, const struct image_file *f,
                                   ey_err *e)
{
    uint64_t canvas = (uint64_t)c->width * (uint64_t)c->height;
    uint64_t covered = (uint64_t)frame->width * (uint64_t)frame->height;
    if (!(c->pixels = pixels_alloc(c->width, c->height, c->channels, e))) return false;
    if (covered < canvas) memset(c->pixels, 0, (size_t)canvas * (size_t)c->channels);
    if (!decode_frame_on(c, frame, f, e)) {
        free(c->pixels);
        return false;
    }
    if (c->channels == 4)
        image_from_rgba(out, c->pixels, c->width, c->height);
    else
        *out = (struct image){.width = c->width, .height = c->height, .rgb = c->pixels};
    return true;
}

static bool decode_canvas(struct image *out, struct webp_canvas *c, const struct webp_frame *frame,
                          const struct image_file *f, ey_err *e)
{
    struct sandbox_image image;
    uint64_t canvas = (uint64_t)c->width * (uint64_t)c->height;
    uint64_t covered = (uint64_t)frame->width * (uint64_t)frame->height;
    if (!frame_fits_canvas(c, frame))
        return fail_damaged(f, "WebP", "a frame outside its canvas", e);
    if (!canvas_plausible(f, canvas, covered, e) ||
        !decoding_allowed(f, (uint64_t)c->width, (uint64_t)c->height,
                          webp_decoding_bytes(f, c, frame), e))
        return false;
    if (!stays_in_bitmap(c, frame)) return decode_frame_on_canvas(out, c, frame, f, e);
    return decode_frame_apart(&image, c, frame, f, e) &&
           image_from_bitmap(out, &image, ALPHA_STRAIGHT, e);
}

/* The result is valid as long as the iterator. */
static struct orientation_source webp_metadata(const WebPDemuxer *demux, const char *name,
                                               WebPChunkIterator *it)
{
    if (!WebPDemuxGetChunk(demux, name, 1, it)) return (struct orientation_source){0};
    return (struct orientation_source){it->chunk.bytes, it->chunk.size};
}

static int webp_orientation(const WebPDemuxer *demux)
{
    WebPChunkIterator exif_chunk = {0}, xmp_chunk = {0};
    struct orientation_source exif = webp_metadata(demux, "EXIF", &exif_chunk);
    struct orientation_source xmp = webp_metadata(demux, "XMP ", &xmp_chunk);
    int orientation = image_orientation(&exif, &xmp);
    WebPDemuxReleaseChunkIterator(&exif_chunk);
    WebPDemuxReleaseChunkIterator(&xmp_chunk);
    return orientation;
}

/* Frames whose kind is unclear count as lossless, which needs more memory. */
static bool is_lossless(const uint8_t *bytes, size_t n)
{
    WebPBitstreamFeatures features;
    return WebPGetFeatures(bytes, n, &features) != VP8_STATUS_OK ||
           features.format != LOSSY_FORMAT || features.has_alpha;
}

static bool decode_animation(struct image *out, const WebPDemuxer *demux,
                             const struct image_file *f, ey_err *e)
{
    WebPIterator it;
    bool alpha = WebPDemuxGetI(demux, WEBP_FF_FORMAT_FLAGS) & ALPHA_FLAG;
    uint32_t width = WebPDemuxGetI(demux, WEBP_FF_CANVAS_WIDTH),
             height = WebPDemuxGetI(demux, WEBP_FF_CANVAS_HEIGHT);
    if (!size_allowed(f, width, height, e)) return false;
    if (!WebPDemuxGetFrame(demux, 1, &it))
        return fail_damaged(f, "WebP", "an animation without frames", e);
    struct webp_canvas c = {(int)width, (int)height, alpha ? 4 : 3, webp_orientation(demux), NULL};
    struct webp_frame frame = {it.fragment.bytes,
                               it.fragment.size,
                               it.x_offset,
                               it.y_offset,
                               it.width,
                               it.height,
                               is_lossless(it.fragment.bytes, it.fragment.size)};
    bool ok = decode_canvas(out, &c, &frame, f, e);
    WebPDemuxReleaseIterator(&it);
    return ok;
}

static bool decode_still(struct image *out, const WebPBitstreamFeatures *features,
                         const WebPDemuxer *demux, const struct image_file *f, ey_err *e)
{
    struct webp_canvas c = {features->width, features->height, features->has_alpha ? 4 : 3,
                            webp_orientation(demux), NULL};
    struct webp_frame frame = {
        f->bytes, f->n, 0, 0, features->width, features->height, is_lossless(f->bytes, f->n)};
    if (!size_allowed(f, (uint64_t)features->width, (uint64_t)features->height, e)) return false;
    return decode_canvas(out, &c, &frame, f, e);
}

bool webp_decode(struct image *out, const struct image_file *f, ey_err *e)
{
    WebPBitstreamFeatures features;
    WebPData data = {f->bytes, f->n};
    if (WebPGetFeatures(f->bytes, f->n, &features) != VP8_STATUS_OK)
        return fail_damaged(f, "WebP", NULL, e);
    WebPDemuxer *demux = WebPDemux(&data); /* NULL if the file is truncated */
    if (!demux) return fail_damaged(f, "WebP", NULL, e);
    bool ok = features.has_animation ? decode_animation(out, demux, f, e)
                                     : decode_still(out, &features, demux, f, e);
    if (ok && !image_turn_upright(out, webp_orientation(demux), e)) {
        image_free(out);
        ok = false;
    }
    WebPDemuxDelete(demux);
    return ok;
}
