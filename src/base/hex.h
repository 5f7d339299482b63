/* SPDX-License-Identifier: Apache-2.0 */
/* Hexadecimal digits. */
#ifndef EY_BASE_HEX_H
#define EY_BASE_HEX_H

/* The value of a digit, or -1 for any other character. */
static inline int hex_digit_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

#endif
