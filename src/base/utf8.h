/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8: validation and decoding, one code point at a time. */
#ifndef EY_BASE_UTF8_H
#define EY_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the well-formed character at s (1..4, n ≥ 1 available) with its code point in *cp (may
 * be NULL); 0: malformed; -1: could still become well-formed with more bytes. */
int utf8_decode(const char *s, size_t n, uint32_t *cp);
bool utf8_valid(const char *s, size_t n);
/* Length of the maximal ill-formed subpart at s (Unicode 3.9, as every "replace" decoder counts).
 */
size_t utf8_bad_length(const char *s, size_t n);
/* Writes cp (a scalar value) and returns 1..4. */
int utf8_encode(uint32_t cp, char out[4]);

#endif
