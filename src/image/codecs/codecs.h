/* SPDX-License-Identifier: Apache-2.0 */
/* What the decoders of src/image share: the file in hand, the limits, memory for pixels, errors,
 * orientation. Nothing outside this room includes it. */
#ifndef EY_IMAGE_CODECS_H
#define EY_IMAGE_CODECS_H

#include "image/image.h"

struct image_file {
    const uint8_t *bytes;
    size_t n;
    const char *name;            /* for messages */
    struct image_budget *budget; /* NULL: no limit */
};

typedef bool decode_fn(struct image *out, const struct image_file *f, ey_err *e);

/* The decoder for the file's leading bytes, or NULL with a message that says what the file is
 * instead. */
decode_fn *decoder_for(const struct image_file *f, ey_err *e);

/* Each fills *out with upright RGB, owned by the caller, or leaves it alone. */
decode_fn jpeg_decode, png_decode, webp_decode, gif_decode, heic_decode, avif_decode;

/* False with a message when a header's size is empty, above the limits or beyond the budget. Called
 * before pixels are allocated. */
bool size_allowed(const struct image_file *f, uint64_t width, uint64_t height, ey_err *e);
/* False when `units` of picture cannot come out of the file even if every byte gave
 * `units_per_byte`, the most that the format's coding allows: such a header is a lie, and its
 * pixels need not be allocated. */
bool size_plausible(const struct image_file *f, const char *format, uint64_t units,
                    uint64_t units_per_byte, ey_err *e);
/* An animation's canvas may be large only in proportion to its first frame. */
bool canvas_plausible(const struct image_file *f, uint64_t canvas, uint64_t frame, ey_err *e);

/* "NAME: this FORMAT is truncated or damaged (detail)"; detail may be NULL. */
bool fail_damaged(const struct image_file *f, const char *format, const char *detail, ey_err *e);

/* width * height * channels bytes, or NULL with a message. */
uint8_t *pixels_alloc(int width, int height, int channels, ey_err *e);
/* Takes RGBA pixels and makes them *out: alpha composited on white, each value round(c·a/255 + 255
 * - a), which is what Pillow's paste onto white gives. */
void image_from_rgba(struct image *out, uint8_t *rgba, int width, int height);

/* 1..8 from an EXIF block (with or without its "Exif\0\0"); 1 when there is none or it is damaged.
 */
int exif_orientation(const uint8_t *exif, size_t n);
/* Turns *image in place of what orientation says; 1 and unknown values do nothing. */
bool image_turn_upright(struct image *image, int orientation, ey_err *e);

#endif
