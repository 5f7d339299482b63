/* SPDX-License-Identifier: Apache-2.0 */
/* base64 (RFC 4648, section 4: standard alphabet, padded). */
#ifndef EY_BASE_BASE64_H
#define EY_BASE_BASE64_H

#include "base/buf.h"

/* Appends n bytes as base64 without line breaks. */
bool base64_encode(struct buf *out, const void *bytes, size_t n);

/* An upper bound of the bytes that base64_decode writes for n characters. */
static inline size_t base64_decode_room(size_t n)
{
    return n / 4 * 3 + 3;
}

/* Decodes n characters to out[base64_decode_room(n)] and sets *n_out. Accepts blanks, line breaks
 * and percent-encoding, which clients put into data URLs. On failure *at is the offset of the wrong
 * character, or n if the text is truncated. */
bool base64_decode(uint8_t *out, size_t *n_out, const char *text, size_t n, size_t *at);

#endif
