/* SPDX-License-Identifier: Apache-2.0 */
/* Pixel buffers for the codecs and the later steps. */
#ifndef EY_IMAGE_PIXELS_H
#define EY_IMAGE_PIXELS_H

#include "image/image.h"
#include "sandbox/sandbox.h"

/* Allocates width * height * channels bytes. Fails with NULL. */
uint8_t *pixels_alloc(int width, int height, int channels, ey_err *e);
/* Takes ownership of RGBA pixels and converts them to *out. Colors are composited on white as
 * round(c·a/255 + 255 - a), like Pillow's paste onto white. */
void image_from_rgba(struct image *out, uint8_t *rgba, int width, int height);

/* What the fourth channel of a bitmap means. */
enum bitmap_alpha {
    ALPHA_STRAIGHT,
    ALPHA_PREMULTIPLIED, /* the colors were multiplied by it */
    ALPHA_IGNORED
};
/* Takes ownership of a sandboxed decoder's bitmap, also if it fails. RGB pixels stay in the
 * bitmap's mapping without a copy; RGBA pixels are converted as `alpha` says, and composited on
 * white. */
bool image_from_bitmap(struct image *out, struct sandbox_image *bitmap, enum bitmap_alpha alpha,
                       ey_err *e);

#endif
