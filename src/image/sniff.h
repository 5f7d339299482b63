/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the codec of an image file by its leading bytes. */
#ifndef EY_IMAGE_SNIFF_H
#define EY_IMAGE_SNIFF_H

#include "image/codecs/codecs.h"

/* The decoder for the file's leading bytes, or NULL with a message that says what the file is
 * instead. */
decode_fn *decoder_for(const struct image_file *f, ey_err *e);

#endif
