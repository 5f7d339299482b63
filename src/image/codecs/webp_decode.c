/* SPDX-License-Identifier: Apache-2.0 */
/* WebP by libwebp: still images and the first frame of animations, alpha on white. */
#include <stdlib.h>
#include <string.h>
#include <webp/decode.h>
#include <webp/demux.h>

#include "image/codecs/codecs.h"
#include "image/orient.h"
#include "image/pixels.h"

/* What libwebp allocates besides what its frame's pixels take, and for a row. */
enum { LOSSY_FORMAT = 1 }; /* of WebPBitstreamFeatures */
enum { LIBWEBP_BYTES = 512 << 10, LIBWEBP_BYTES_PER_COLUMN = 256 };

struct webp_frame {
    const uint8_t *bytes;
    size_t n;
    int x, y, width, height;
    bool lossless;
};

struct webp_canvas {
    int width, height, channels, orientation;
    uint8_t *pixels;
};

/* Decodes a frame to its place on the canvas. */
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

/* The canvas, before and after it is turned, and what libwebp has of the frame: all pixels of a
 * lossless one as ARGB; of a lossy one its alpha plane, which may be coded as a lossless image. */
static uint64_t webp_decoding_bytes(const struct webp_canvas *c, const struct webp_frame *frame)
{
    uint64_t canvas = (uint64_t)c->width * (uint64_t)c->height;
    uint64_t covered = (uint64_t)frame->width * (uint64_t)frame->height;
    uint64_t each = frame->lossless ? 4 : c->channels == 4 ? 5 : 0;
    uint64_t decoded = covered * each + (uint64_t)frame->width * LIBWEBP_BYTES_PER_COLUMN;
    uint64_t turned = c->orientation > 1 ? canvas * 3 : 0;
    return LIBWEBP_BYTES + canvas * (uint64_t)c->channels + (decoded > turned ? decoded : turned);
}

/* What a frame does not cover is transparent, or black in a file without alpha: as libwebp's own
 * animation decoder has it, and Pillow through it. */
static bool decode_canvas(struct image *out, struct webp_canvas *c, const struct webp_frame *frame,
                          const struct image_file *f, ey_err *e)
{
    uint64_t canvas = (uint64_t)c->width * (uint64_t)c->height;
    uint64_t covered = (uint64_t)frame->width * (uint64_t)frame->height;
    if (!frame_fits_canvas(c, frame))
        return fail_damaged(f, "WebP", "a frame outside its canvas", e);
    if (!canvas_plausible(f, canvas, covered, e) ||
        !decoding_allowed(f, (uint64_t)c->width, (uint64_t)c->height, webp_decoding_bytes(c, frame),
                          e))
        return false;
    if (!(c->pixels = pixels_alloc(c->width, c->height, c->channels, e))) return false;
    if (covered < canvas) memset(c->pixels, 0, (size_t)canvas * (size_t)c->channels);
    if (!decode_frame(c, frame)) {
        free(c->pixels);
        return fail_damaged(f, "WebP", NULL, e);
    }
    if (c->channels == 4)
        image_from_rgba(out, c->pixels, c->width, c->height);
    else
        *out = (struct image){c->width, c->height, c->pixels};
    return true;
}

/* The iterator must outlive what it points to. */
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

/* Anything unclear counts as what takes more. */
static bool is_lossless(const uint8_t *bytes, size_t n)
{
    WebPBitstreamFeatures features;
    return WebPGetFeatures(bytes, n, &features) != VP8_STATUS_OK || features.format != LOSSY_FORMAT;
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
        f->bytes, f->n, 0, 0, features->width, features->height, features->format != LOSSY_FORMAT};
    if (!size_allowed(f, (uint64_t)features->width, (uint64_t)features->height, e)) return false;
    return decode_canvas(out, &c, &frame, f, e);
}

bool webp_decode(struct image *out, const struct image_file *f, ey_err *e)
{
    WebPBitstreamFeatures features;
    WebPData data = {f->bytes, f->n};
    if (WebPGetFeatures(f->bytes, f->n, &features) != VP8_STATUS_OK)
        return fail_damaged(f, "WebP", NULL, e);
    WebPDemuxer *demux = WebPDemux(&data); /* none when the file is cut short */
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
