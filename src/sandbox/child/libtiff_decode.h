/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the first page of a TIFF file to an RGBA bitmap (sandbox_message.h) with premultiplied
 * alpha, using libtiff. The caller applies the file's orientation. */
#ifndef EY_SANDBOX_LIBTIFF_DECODE_H
#define EY_SANDBOX_LIBTIFF_DECODE_H

#include "sandbox/child/decoder_output.h"

/* Loads the library while files may still be opened. If it is missing, jobs fail. */
void libtiff_load(void);

/* Fills *reply with the result. */
void libtiff_decode(struct reply_message *reply, const uint8_t *input, size_t n,
                    const struct decoder_output *output);

#endif
