/* SPDX-License-Identifier: Apache-2.0 */
/* WebP to a bitmap (sandbox_message.h), by libwebp: one frame, whose Huffman tables may take far
 * more than its pixels. */
#ifndef EY_SANDBOX_LIBWEBP_DECODE_H
#define EY_SANDBOX_LIBWEBP_DECODE_H

#include "sandbox/child/decoder_output.h"

/* Fills *reply with what came of it. */
void libwebp_decode(struct reply_message *reply, enum job_kind kind, const uint8_t *input, size_t n,
                    const struct decoder_output *output);

#endif
