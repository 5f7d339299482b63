/* SPDX-License-Identifier: Apache-2.0 */
/* Pixel buffers for the codecs and the later steps. */
#ifndef EY_IMAGE_PIXELS_H
#define EY_IMAGE_PIXELS_H

#include "image/image.h"

/* Allocates width * height * channels bytes. Fails with NULL. */
uint8_t *pixels_alloc(int width, int height, int channels, ey_err *e);
/* Takes ownership of RGBA pixels and converts them to *out. Colors are composited on white as
 * round(c·a/255 + 255 - a), like Pillow's paste onto white. */
void image_from_rgba(struct image *out, uint8_t *rgba, int width, int height);
/* Like image_from_rgba(), for premultiplied colors. */
void image_from_premultiplied(struct image *out, uint8_t *rgba, int width, int height);

#endif
