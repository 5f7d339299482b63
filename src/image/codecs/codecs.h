/* SPDX-License-Identifier: Apache-2.0 */
/* The decoders, and their shared input, limits and errors. Private to src/image. */
#ifndef EY_IMAGE_CODECS_H
#define EY_IMAGE_CODECS_H

#include "image/image.h"

struct image_file {
    const uint8_t *bytes;
    size_t n;
    const char *name;            /* for messages */
    struct image_budget *budget; /* NULL for no limit */
};

typedef bool decode_fn(struct image *out, const struct image_file *f, ey_err *e);

/* Each fills *out with upright RGB, owned by the caller, or leaves it unchanged and fails. */
decode_fn jpeg_decode, png_decode, webp_decode, gif_decode, heic_decode, avif_decode, tiff_decode,
    bmp_decode, pnm_decode;

/* Fails if the size in a header is zero or above the limits. Called before pixels are allocated. */
bool size_allowed(const struct image_file *f, uint64_t width, uint64_t height, ey_err *e);
/* Takes `bytes` from the budget before they are allocated: an upper bound of what decoding an image
 * of this size allocates, which tests/image measures. Fails if the budget cannot provide them. */
bool decoding_allowed(const struct image_file *f, uint64_t width, uint64_t height, uint64_t bytes,
                      ey_err *e);
/* Fails if the header claims more `units` (pixels or bytes) than a file of this length can hold,
 * with `units_per_byte` at the format's best compression. Called before pixels are allocated. */
bool size_plausible(const struct image_file *f, const char *format, uint64_t units,
                    uint64_t units_per_byte, ey_err *e);
/* Fails if an animation's canvas is out of proportion to its first frame. */
bool canvas_plausible(const struct image_file *f, uint64_t canvas, uint64_t frame, ey_err *e);

/* Fails with "NAME: this FORMAT is truncated or damaged (detail)"; detail may be NULL. Returns
 * false. */
bool fail_damaged(const struct image_file *f, const char *format, const char *detail, ey_err *e);

#endif
