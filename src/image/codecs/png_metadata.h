/* SPDX-License-Identifier: Apache-2.0 */
/* What a PNG says about its orientation. Only src/image/codecs includes it. */
#ifndef EY_IMAGE_PNG_METADATA_H
#define EY_IMAGE_PNG_METADATA_H

#include "image/codecs/codecs.h"

/* From eXIf, else from ImageMagick's "Raw profile type exif", and where that has none, from XMP;
 * wherever the chunk stands. 0 when there is none. */
int png_orientation(const struct image_file *f);

#endif
