/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes HEIC and AVIF to a bitmap (sandbox_message.h) with libheif. */
#ifndef EY_SANDBOX_LIBHEIF_DECODE_H
#define EY_SANDBOX_LIBHEIF_DECODE_H

#include "sandbox/child/decoder_output.h"

/* Loads the library and its codecs while files may still be opened. If it is missing, jobs fail. */
void libheif_load(void);

/* Fills *reply with the result. */
void libheif_decode(struct reply_message *reply, enum job_kind kind, const uint8_t *input, size_t n,
                    const struct decoder_output *output);

#endif
