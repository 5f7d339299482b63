/* SPDX-License-Identifier: Apache-2.0 */
/* Plain characters and sets of them. */
#include "constrain/analysis/plain_set.h"

#include "base/utf8.h"

int plain_char(const char *s, size_t n)
{
    uint32_t cp;
    int length = utf8_decode(s, n, &cp);
    if (length <= 0 || cp < 0x20 || cp == '"' || cp == '\\' || (cp >= 0x7f && cp < 0xa0) ||
        (cp >= 0x2000 && cp < 0x2040))
        return 0;
    return length;
}

uint64_t plain_class(uint8_t byte)
{
    unsigned bit = 63;
    if (byte < 0x30)
        bit = byte - 0x20; /* 0 to 15 */
    else if (byte < 0x3a)
        bit = 16;
    else if (byte < 0x41)
        bit = 17u + byte - 0x3a; /* to 23 */
    else if (byte < 0x80)
        bit = 24 + (byte - 0x41u) % 32; /* to 55; upper and lower case share a bit */
    return (uint64_t)1 << bit;
}

bool plain_set_is_full(const struct plain_set *a)
{
    return a->ascii[0] == PLAIN_LOW && a->ascii[1] == PLAIN_HIGH && a->non_ascii;
}

uint64_t plain_set_missing(const struct plain_set *a)
{
    uint64_t classes = a->non_ascii ? 0 : plain_class(0x80);
    for (unsigned byte = 0x20; byte < 0x7f; byte++)
        if (byte != '"' && byte != '\\' && !plain_set_has(a, (uint8_t)byte))
            classes |= plain_class((uint8_t)byte);
    return classes;
}
