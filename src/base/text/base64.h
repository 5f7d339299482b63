/* SPDX-License-Identifier: Apache-2.0 */
/* base64 of RFC 4648, section 4: the standard alphabet, padded. */
#ifndef EY_BASE_BASE64_H
#define EY_BASE_BASE64_H

#include "base/buf.h"

/* Appends n bytes as base64, without line ends. */
bool base64_encode(struct buf *out, const void *bytes, size_t n);

/* Bytes that base64_decode may write for n characters. */
static inline size_t base64_decode_room(size_t n)
{
    return n / 4 * 3 + 3;
}

/* Reads n characters. Blanks, line ends and percent-encoded characters may be among them: clients
 * put both in URLs. *n_out: bytes written to `out`, which has base64_decode_room(n). False: the
 * character at *at cannot stand there; *at == n: it is cut off. */
bool base64_decode(uint8_t *out, size_t *n_out, const char *text, size_t n, size_t *at);

#endif
