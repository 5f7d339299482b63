/* SPDX-License-Identifier: Apache-2.0 */
/* Plain characters, which need no escape in a JSON string, and sets of them. */
#ifndef EY_CONSTRAIN_PLAIN_SET_H
#define EY_CONSTRAIN_PLAIN_SET_H

#include "constrain/automaton/automaton.h"

/* Bit masks of the plain ASCII characters. */
#define PLAIN_LOW 0xfffffffb00000000u  /* 0x20 to 0x3f without the quote */
#define PLAIN_HIGH 0x7fffffffefffffffu /* 0x40 to 0x7e without the backslash */

/* Returns the length of the plain character at s, or 0. Plain characters are printable ASCII
 * except quote and backslash, and U+00A0 and above except U+2000 to U+203F, where Unicode's line
 * separators are. */
int plain_char(const char *s, size_t n);
/* Returns one of 64 bits for a byte of a plain character. Both cases of a letter share a bit, and
 * so do all digits, and all bytes beyond ASCII. */
uint64_t plain_class(uint8_t byte);

static inline bool plain_set_has(const struct plain_set *a, uint8_t byte)
{
    return byte < 128 ? a->ascii[byte / 64] >> (byte % 64) & 1 : a->non_ascii;
}

/* Returns plain_class() of all plain characters that are not in the set. */
uint64_t plain_set_missing(const struct plain_set *a);
/* Whether the set has all plain characters. */
bool plain_set_is_full(const struct plain_set *a);

#endif
