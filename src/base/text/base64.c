/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes base64 in one pass. */
#include "base/text/base64.h"

#include <string.h>

#include "base/hex.h"

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool base64_encode(struct buf *out, const void *bytes, size_t n)
{
    const uint8_t *from = bytes;
    if (!buf_reserve(out, (n + 2) / 3 * 4)) return false;
    char *to = out->data + out->size;
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        uint32_t bits = (uint32_t)from[i] << 16 | (left > 1 ? (uint32_t)from[i + 1] << 8 : 0) |
                        (left > 2 ? from[i + 2] : 0);
        *to++ = base64_digits[bits >> 18];
        *to++ = base64_digits[bits >> 12 & 63];
        *to++ = left > 1 ? base64_digits[bits >> 6 & 63] : '=';
        *to++ = left > 2 ? base64_digits[bits & 63] : '=';
    }
    *to = 0;
    out->size = (size_t)(to - out->data);
    return true;
}

/* ---- decoding ---- */

enum {
    BASE64_PAD = 64,
    BASE64_BLANK,
    BASE64_PERCENT,
    BASE64_BAD,
    BASE64_END
}; /* above the values of the 64 digits */

struct base64_reader {
    const unsigned char *first, *at, *end;
    const unsigned char *symbol; /* start of the last symbol */
    uint8_t symbol_value[256];
};

static struct base64_reader make_base64_reader(const char *text, size_t n)
{
    struct base64_reader r = {.first = (const unsigned char *)text,
                              .at = (const unsigned char *)text,
                              .end = (const unsigned char *)text + n};
    memset(r.symbol_value, BASE64_BAD, sizeof(r.symbol_value));
    for (int i = 0; i < 64; i++)
        r.symbol_value[(unsigned char)base64_digits[i]] = (uint8_t)i;
    for (const char *blank = " \t\r\n\f"; *blank; blank++)
        r.symbol_value[(unsigned char)*blank] = BASE64_BLANK;
    r.symbol_value['='] = BASE64_PAD;
    r.symbol_value['%'] = BASE64_PERCENT;
    return r;
}

/* Returns the next digit's value or BASE64_PAD, skipping blanks. */
static int next_symbol(struct base64_reader *r)
{
    while ((r->symbol = r->at) < r->end) {
        int meaning = r->symbol_value[*r->at], length = 1;
        if (meaning == BASE64_PERCENT) {
            int high = r->end - r->at > 2 ? hex_digit_value((char)r->at[1]) : -1,
                low = high < 0 ? -1 : hex_digit_value((char)r->at[2]);
            meaning = low < 0 ? BASE64_BAD : r->symbol_value[high << 4 | low];
            if (meaning == BASE64_PERCENT) meaning = BASE64_BAD;
            length = 3;
        }
        if (meaning == BASE64_BAD) return BASE64_BAD;
        r->at += length;
        if (meaning != BASE64_BLANK) return meaning;
    }
    return BASE64_END;
}

/* Fast path: decodes groups of four plain digits up to the first other group. Returns the number of
 * bytes written. */
static size_t decode_plain_base64(struct base64_reader *r, uint8_t *out)
{
    const uint8_t *m = r->symbol_value;
    size_t n = 0;
    while (r->end - r->at >= 4) {
        unsigned a = m[r->at[0]], b = m[r->at[1]], c = m[r->at[2]], d = m[r->at[3]];
        if ((a | b | c | d) > 63) break;
        unsigned bits = a << 18 | b << 12 | c << 6 | d;
        out[n] = (uint8_t)(bits >> 16);
        out[n + 1] = (uint8_t)(bits >> 8);
        out[n + 2] = (uint8_t)bits;
        r->at += 4;
        n += 3;
    }
    return n;
}

/* Whether symbol i of a group may stand there: only the last one or two may be padding. */
static bool base64_symbol_fits(const int s[4], int i)
{
    if (s[i] == BASE64_PAD) return i >= 2;
    return s[i] < BASE64_PAD && (i < 3 || s[2] != BASE64_PAD);
}

/* Decodes to *n bytes a group that may have blanks, escapes or padding. The group is the last one
 * if *n is less than 3. */
static bool decode_base64_group(struct base64_reader *r, uint8_t *out, size_t *n)
{
    int s[4];
    *n = 0;
    for (int i = 0; i < 4; i++) {
        s[i] = next_symbol(r);
        if (i == 0 && s[i] == BASE64_END) return true;
        if (!base64_symbol_fits(s, i)) return false;
    }
    *n = s[2] == BASE64_PAD ? 1 : s[3] == BASE64_PAD ? 2 : 3;
    unsigned bits = (unsigned)s[0] << 18 | (unsigned)s[1] << 12 | (unsigned)(s[2] & 63) << 6 |
                    (unsigned)(s[3] & 63);
    for (size_t i = 0; i < *n; i++)
        out[i] = (uint8_t)(bits >> (16 - 8 * i));
    return *n == 3 || next_symbol(r) == BASE64_END;
}

bool base64_decode(uint8_t *out, size_t *n_out, const char *text, size_t n, size_t *at)
{
    struct base64_reader r = make_base64_reader(text, n);
    size_t got;
    *n_out = 0;
    do {
        *n_out += decode_plain_base64(&r, out + *n_out);
        if (!decode_base64_group(&r, out + *n_out, &got)) {
            *at = (size_t)(r.symbol - r.first);
            return false;
        }
        *n_out += got;
    } while (got == 3);
    return true;
}
