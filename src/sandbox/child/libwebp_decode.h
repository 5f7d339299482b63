/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes one WebP frame to a bitmap (sandbox_message.h) with libwebp. A frame's Huffman
 * tables may take far more memory than its pixels. */
#ifndef EY_SANDBOX_LIBWEBP_DECODE_H
#define EY_SANDBOX_LIBWEBP_DECODE_H

#include "sandbox/child/decoder_output.h"

/* Fills *reply with the result. */
void libwebp_decode(struct reply_message *reply, enum job_kind kind, const uint8_t *input, size_t n,
                    const struct decoder_output *output);

#endif
