/* SPDX-License-Identifier: Apache-2.0 */
/* data: URLs: the head is looked at, the rest is base64 (RFC 4648, padded) with blanks and line
 * ends among it and percent-encoding, both of which clients produce. One pass, no copy. */
#include "media/media_internal.h"

#include <string.h>
#include <strings.h>

#include "base/hex.h"

enum { MAX_HEAD = 256 }; /* bytes before the comma */

/* ---- the head: [media type][;parameter…];base64 ---- */

static bool equals_ignoring_case(const char *text, size_t n, const char *other)
{
    return strlen(other) == n && strncasecmp(text, other, n) == 0;
}

/* What the file is, its own first bytes tell; a type that says otherwise is an error of the client.
 * "image" without a kind is common. */
static bool may_be_image(const char *type, size_t n)
{
    return n == 0 || equals_ignoring_case(type, n, "image") ||
           (n > 6 && strncasecmp(type, "image/", 6) == 0) ||
           equals_ignoring_case(type, n, "application/octet-stream");
}

static bool check_head(const char *head, size_t length, ey_err *e)
{
    size_t type = 0, last = length;
    while (type < length && head[type] != ';')
        type++;
    while (last > type && head[last - 1] != ';')
        last--;
    if (last <= type || !equals_ignoring_case(head + last, length - last, "base64"))
        return ey_fail(e, EY_BAD_REQUEST,
                       "the data: URL is not base64: data:image/png;base64,… is what can be read");
    return may_be_image(head, type) ||
           ey_fail(e, EY_BAD_REQUEST, "the data: URL is of type \"%.*s\", which is not an image's",
                   (int)type, head);
}

/* What follows the comma; NULL with a message where the head is not an image's. */
static const char *find_base64_data(const char *url, size_t n, ey_err *e)
{
    static const char scheme[] = "data:";
    size_t skip = strlen(scheme), rest = n - skip;
    if (n < skip || strncasecmp(url, scheme, skip) != 0)
        return ey_fail(e, EY_BAD_REQUEST, "not a data: URL"), NULL;
    const char *head = url + skip, *comma = memchr(head, ',', rest < MAX_HEAD ? rest : MAX_HEAD);
    if (!comma)
        return ey_fail(e, EY_BAD_REQUEST,
                       "the data: URL has no comma after its media type: data:image/png;base64,…"),
               NULL;
    return check_head(head, (size_t)(comma - head), e) ? comma + 1 : NULL;
}

/* ---- base64 ---- */

enum {
    BASE64_PAD = 64,
    BASE64_BLANK,
    BASE64_PERCENT,
    BASE64_BAD,
    BASE64_END
}; /* above the values of digits */

struct base64_reader {
    const unsigned char *first, *at, *end;
    const unsigned char *symbol; /* where the last one began */
    uint8_t symbol_value[256];
};

static struct base64_reader make_base64_reader(const char *text, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct base64_reader r = {.first = (const unsigned char *)text,
                              .at = (const unsigned char *)text,
                              .end = (const unsigned char *)text + n};
    memset(r.symbol_value, BASE64_BAD, sizeof(r.symbol_value));
    for (int i = 0; i < 64; i++)
        r.symbol_value[(unsigned char)digits[i]] = (uint8_t)i;
    for (const char *blank = " \t\r\n\f"; *blank; blank++)
        r.symbol_value[(unsigned char)*blank] = BASE64_BLANK;
    r.symbol_value['='] = BASE64_PAD;
    r.symbol_value['%'] = BASE64_PERCENT;
    return r;
}

/* The next digit or PAD; blanks are passed over. */
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

/* Groups of four plain digits, as far as they go: nearly all of it. Returns bytes written. */
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

static bool fail_symbol(const struct base64_reader *r, ey_err *e)
{
    size_t at = (size_t)(r->symbol - r->first);
    if (r->symbol == r->end)
        return ey_fail(e, EY_BAD_REQUEST, "the data: URL's base64 is cut off after %zu characters",
                       at);
    if (*r->symbol == '-' || *r->symbol == '_')
        return ey_fail(e, EY_BAD_REQUEST,
                       "the data: URL's base64 has '%c' at character %zu; use the standard "
                       "alphabet, with + and /",
                       *r->symbol, at);
    return ey_fail(e, EY_BAD_REQUEST, "the data: URL's base64 is malformed at character %zu", at);
}

/* Whether symbol i of a group may be this one: one or two PADs at its end. */
static bool base64_symbol_fits(const int s[4], int i)
{
    if (s[i] == BASE64_PAD) return i >= 2;
    return s[i] < BASE64_PAD && (i < 3 || s[2] != BASE64_PAD);
}

/* One group that has blanks, escapes or padding in it. *n: bytes it gave; fewer than 3: the end. */
static bool decode_base64_group(struct base64_reader *r, uint8_t *out, size_t *n, ey_err *e)
{
    int s[4];
    *n = 0;
    for (int i = 0; i < 4; i++) {
        s[i] = next_symbol(r);
        if (i == 0 && s[i] == BASE64_END) return true;
        if (!base64_symbol_fits(s, i)) return fail_symbol(r, e);
    }
    *n = s[2] == BASE64_PAD ? 1 : s[3] == BASE64_PAD ? 2 : 3;
    unsigned bits = (unsigned)s[0] << 18 | (unsigned)s[1] << 12 | (unsigned)(s[2] & 63) << 6 |
                    (unsigned)(s[3] & 63);
    for (size_t i = 0; i < *n; i++)
        out[i] = (uint8_t)(bits >> (16 - 8 * i));
    return *n == 3 || next_symbol(r) == BASE64_END || fail_symbol(r, e);
}

static bool decode_base64(struct media *out, struct base64_reader *r, ey_err *e)
{
    uint8_t *bytes = out->bytes;
    size_t got;
    do {
        out->n_bytes += decode_plain_base64(r, bytes + out->n_bytes);
        if (!decode_base64_group(r, bytes + out->n_bytes, &got, e)) return false;
        out->n_bytes += got;
    } while (got == 3);
    return true;
}

bool media_decode_data_url(struct media *out, const char *url, size_t n,
                           const struct media_policy *policy, ey_err *e)
{
    *out = (struct media){0};
    const char *data = find_base64_data(url, n, e);
    if (!data) return false;
    size_t length = n - (size_t)(data - url), most = length / 4 * 3;
    if (most > media_max_bytes(policy) + 2) return media_fail_too_large(policy, e);
    struct base64_reader r = make_base64_reader(data, length);
    bool ok = media_reserve(out, most + 3, policy, e) && decode_base64(out, &r, e);
    if (ok && out->n_bytes > media_max_bytes(policy)) ok = media_fail_too_large(policy, e);
    if (ok && !out->n_bytes)
        ok = ey_fail(e, EY_BAD_IMAGE, "Failed to load image: the data: URL is empty");
    if (ok)
        media_shrink(out);
    else
        media_free(out);
    return ok;
}
