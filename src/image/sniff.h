/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the decoder of an image file by its leading bytes. */
#ifndef EY_IMAGE_SNIFF_H
#define EY_IMAGE_SNIFF_H

#include "image/codecs/codecs.h"

/* Returns the decoder. Fails with NULL and an error that says what the file is instead. */
decode_fn *decoder_for(const struct image_file *f, ey_err *e);

#endif
