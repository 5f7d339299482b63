/* SPDX-License-Identifier: Apache-2.0 */
/* EXIF orientation: read, and applied. */
#ifndef EY_IMAGE_ORIENT_H
#define EY_IMAGE_ORIENT_H

#include "image/image.h"

/* 1..8 from an EXIF block (with or without its "Exif\0\0"); 1 when there is none or it is damaged.
 */
int exif_orientation(const uint8_t *exif, size_t n);
/* Turns *image in place of what orientation says; 1 and unknown values do nothing. */
bool image_turn_upright(struct image *image, int orientation, ey_err *e);

#endif
