/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a PNG's orientation. Private to src/image/codecs. */
#ifndef EY_IMAGE_PNG_METADATA_H
#define EY_IMAGE_PNG_METADATA_H

#include "image/codecs/codecs.h"

/* Looks in eXIf, else ImageMagick's "Raw profile type exif", else XMP, anywhere in the file.
 * Sets 0 if there is none. Fails if memory is short. */
bool png_orientation(const struct image_file *f, int *orientation, ey_err *e);

#endif
