/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for pixels, for the codecs and the steps after them. */
#ifndef EY_IMAGE_PIXELS_H
#define EY_IMAGE_PIXELS_H

#include "image/image.h"

/* width * height * channels bytes, or NULL with a message. */
uint8_t *pixels_alloc(int width, int height, int channels, ey_err *e);
/* Takes RGBA pixels and makes them *out: alpha composited on white, each value round(c·a/255 + 255
 * - a), which is what Pillow's paste onto white gives. */
void image_from_rgba(struct image *out, uint8_t *rgba, int width, int height);
/* The same for colours that are multiplied by their alpha already. */
void image_from_premultiplied(struct image *out, uint8_t *rgba, int width, int height);

#endif
