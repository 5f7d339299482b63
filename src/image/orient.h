/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the orientation from EXIF and XMP, and applies it. */
#ifndef EY_IMAGE_ORIENT_H
#define EY_IMAGE_ORIENT_H

#include "image/image.h"

/* A metadata block in a file; n is 0 if there is none. */
struct orientation_source {
    const uint8_t *bytes;
    size_t n;
};

/* Returns the orientation (1..8) of an EXIF block, with or without its "Exif\0\0" prefix; 0 if it
 * has none. */
int exif_orientation(const uint8_t *exif, size_t n);
/* Returns the orientation (0..9) in XMP; 0 if it has none. */
int xmp_orientation(const uint8_t *xmp, size_t n);
/* Returns the orientation in EXIF, or that in XMP if EXIF has none, or 0 if neither has one. Like
 * in Pillow, an invalid value in EXIF counts as 1 and XMP is not read. */
int image_orientation(const struct orientation_source *exif, const struct orientation_source *xmp);
/* Rotates or mirrors *image upright. Orientation 1 and unknown values change nothing. */
bool image_turn_upright(struct image *image, int orientation, ey_err *e);

#endif
