/* SPDX-License-Identifier: Apache-2.0 */
/* Orientation: read from EXIF and XMP, and applied. */
#ifndef EY_IMAGE_ORIENT_H
#define EY_IMAGE_ORIENT_H

#include "image/image.h"

/* A block of metadata as it lies in a file; n is 0 when there is none. */
struct orientation_source {
    const uint8_t *bytes;
    size_t n;
};

/* 1..8 from an EXIF block (with or without its "Exif\0\0"); 0 when it has no such tag. */
int exif_orientation(const uint8_t *exif, size_t n);
/* 0..9 from XMP; 0 when it has none. */
int xmp_orientation(const uint8_t *xmp, size_t n);
/* EXIF's, whatever it says, before XMP's, as in Pillow; 0 when neither has one. */
int image_orientation(const struct orientation_source *exif, const struct orientation_source *xmp);
/* Turns *image in place of what orientation says; 1 and unknown values do nothing. */
bool image_turn_upright(struct image *image, int orientation, ey_err *e);

#endif
