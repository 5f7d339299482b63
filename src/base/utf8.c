/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 by the table of well-formed byte sequences (Unicode 3.9, table 3-7). */
#include "base/utf8.h"

#include <string.h>

/* Returns the length that a lead byte announces, or 0 if no character begins with it. */
static int announced_length(uint8_t lead)
{
    if (lead < 0x80) return 1;
    if (lead >= 0xc2 && lead <= 0xdf) return 2;
    if (lead >= 0xe0 && lead <= 0xef) return 3;
    if (lead >= 0xf0 && lead <= 0xf4) return 4;
    return 0;
}

/* Some lead bytes narrow the second byte's range, to exclude overlong forms, surrogates and code
 * points above U+10FFFF. */
static bool second_byte_fits(uint8_t lead, uint8_t second)
{
    uint8_t lo = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint8_t hi = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    return second >= lo && second <= hi;
}

/* Counts the bytes at s that begin a well-formed character, at most `length`. */
static int valid_prefix(const uint8_t *s, size_t n, int length)
{
    int valid = 1;
    while (valid < length && (size_t)valid < n) {
        bool fits = valid == 1 ? second_byte_fits(s[0], s[1]) : (s[valid] & 0xc0) == 0x80;
        if (!fits) break;
        valid++;
    }
    return valid;
}

int utf8_decode(const char *text, size_t n, uint32_t *cp)
{
    const uint8_t *s = (const uint8_t *)text;
    int length = announced_length(s[0]);
    if (!length) return 0;
    int valid = valid_prefix(s, n, length);
    if (valid < length) return (size_t)valid == n ? -1 : 0;
    uint32_t value = length == 1 ? s[0] : s[0] & (0x7fu >> length);
    for (int i = 1; i < length; i++)
        value = value << 6 | (s[i] & 0x3f);
    if (cp) *cp = value;
    return length;
}

/* Whether the next eight bytes are ASCII, as most text is. */
static bool ascii8(const char *s)
{
    uint64_t word;
    memcpy(&word, s, sizeof(word));
    return !(word & 0x8080808080808080u);
}

bool utf8_valid(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        while (n - i >= 8 && ascii8(s + i))
            i += 8;
        if (i == n) return true;
        int length = utf8_decode(s + i, n - i, NULL);
        if (length <= 0) return false;
        i += (size_t)length;
    }
    return true;
}

size_t utf8_prefix(const char *s, size_t n, size_t most)
{
    size_t shown = n < most ? n : most;
    while (shown < n && shown > 0 && ((unsigned char)s[shown] & 0xc0) == 0x80)
        shown--;
    return shown;
}

size_t utf8_bad_length(const char *text, size_t n)
{
    const uint8_t *s = (const uint8_t *)text;
    int length = announced_length(s[0]);
    return length ? (size_t)valid_prefix(s, n, length) : 1;
}

int utf8_encode(uint32_t cp, char out[4])
{
    uint8_t *o = (uint8_t *)out;
    if (cp < 0x80) return o[0] = (uint8_t)cp, 1;
    if (cp < 0x800)
        return o[0] = (uint8_t)(0xc0 | cp >> 6), o[1] = (uint8_t)(0x80 | (cp & 0x3f)), 2;
    if (cp < 0x10000) {
        o[0] = (uint8_t)(0xe0 | cp >> 12);
        o[1] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
        o[2] = (uint8_t)(0x80 | (cp & 0x3f));
        return 3;
    }
    o[0] = (uint8_t)(0xf0 | cp >> 18);
    o[1] = (uint8_t)(0x80 | (cp >> 12 & 0x3f));
    o[2] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
    o[3] = (uint8_t)(0x80 | (cp & 0x3f));
    return 4;
}
