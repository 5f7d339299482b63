/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a PNG's orientation. Private to src/image/codecs. */
#ifndef EY_IMAGE_PNG_METADATA_H
#define EY_IMAGE_PNG_METADATA_H

#include "image/codecs/codecs.h"

/* Sets *orientation from the eXIf chunk, else ImageMagick's "Raw profile type exif", else XMP,
 * anywhere in the file, or to 0 if none has it. Fails if memory is short. */
bool png_orientation(const struct image_file *f, int *orientation, ey_err *e);

#endif
