/* SPDX-License-Identifier: Apache-2.0 */
/* The first page of a TIFF file to a bitmap of four channels, colors multiplied by alpha, by
 * libtiff. It is not turned: the file's orientation is the caller's affair. */
#ifndef EY_SANDBOX_LIBTIFF_DECODE_H
#define EY_SANDBOX_LIBTIFF_DECODE_H

#include "sandbox/child/decoder_output.h"

/* Loads the library while files may still be opened. Without it jobs fail. */
void libtiff_load(void);

/* Fills *reply with what came of it. */
void libtiff_decode(struct reply_message *reply, const uint8_t *input, size_t n,
                    const struct decoder_output *output);

#endif
