/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 validation, decoding and encoding, one code point at a time. */
#ifndef EY_BASE_UTF8_H
#define EY_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes the character at s, of which n >= 1 bytes are available. Returns its length (1 to 4) and
 * its code point in *cp (may be NULL), 0 if it is malformed, or -1 if more bytes could complete it.
 */
int utf8_decode(const char *s, size_t n, uint32_t *cp);
bool utf8_valid(const char *s, size_t n);
/* Returns the most bytes of n, at most `most`, that do not end inside a character. */
size_t utf8_prefix(const char *s, size_t n, size_t most);
/* Returns the length of the maximal ill-formed subpart at s (Unicode 3.9), which a decoder replaces
 * by one U+FFFD. */
size_t utf8_bad_length(const char *s, size_t n);
/* Writes cp, a Unicode scalar value, and returns its length, 1 to 4. */
int utf8_encode(uint32_t cp, char out[4]);

#endif
