/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes data: URLs. In this file, the head of a URL is the part between "data:" and the comma. */
#include "media/media_internal.h"

#include <string.h>
#include <strings.h>

#include "base/text/base64.h"

enum { MAX_HEAD = 256 }; /* bytes before the comma */

/* ---- the head: [media type][;parameter…];base64 ---- */

static bool equals_ignoring_case(const char *text, size_t n, const char *other)
{
    return strlen(other) == n && strncasecmp(text, other, n) == 0;
}

/* Whether a media type may be that of an image. The format is detected from the file's bytes, so an
 * image type that contradicts them is ignored. "image" without a subtype is common. */
static bool may_be_image(const char *type, size_t n)
{
    return n == 0 || equals_ignoring_case(type, n, "image") ||
           (n > 6 && strncasecmp(type, "image/", 6) == 0) ||
           equals_ignoring_case(type, n, "application/pdf") || /* documents in file parts */
           equals_ignoring_case(type, n, "application/octet-stream");
}

static bool is_blank_in_head(char c)
{
    return c == ' ' || c == '\f';
}

/* Copies the head without tabs and line ends (as the URL standard says) and without leading and
 * trailing blanks (as the Fetch standard says). */
static size_t clean_head(char out[MAX_HEAD], const char *head, size_t length)
{
    size_t n = 0;
    for (size_t i = 0; i < length; i++)
        if (!memchr("\t\r\n", head[i], 3) && (n || !is_blank_in_head(head[i]))) out[n++] = head[i];
    while (n && is_blank_in_head(out[n - 1]))
        n--;
    return n;
}

/* Like browsers, allows blanks before "base64" and around the media type. */
static bool check_head(const char *url_head, size_t length, ey_err *e)
{
    char head[MAX_HEAD];
    size_t n = clean_head(head, url_head, length), type = 0, last = n, word;
    while (type < n && head[type] != ';')
        type++;
    while (last > type && head[last - 1] != ';')
        last--;
    for (word = last; word < n && head[word] == ' ';)
        word++;
    if (last <= type || !equals_ignoring_case(head + word, n - word, "base64"))
        return ey_fail(e, EY_BAD_REQUEST,
                       "the data: URL is not base64; use data:image/png;base64,…");
    while (type && is_blank_in_head(head[type - 1]))
        type--;
    return may_be_image(head, type) ||
           ey_fail(
               e, EY_BAD_REQUEST,
               "the data: URL is of type \"%.*s\", which is not an image type; send an image, or a "
               "PDF as a file",
               (int)type, head);
}

/* Returns the data after the comma, or NULL with an error if check_head() rejects the head. */
static const char *find_base64_data(const char *url, size_t n, ey_err *e)
{
    static const char scheme[] = "data:";
    size_t skip = strlen(scheme), rest = n - skip;
    if (n < skip || strncasecmp(url, scheme, skip) != 0)
        return ey_fail(e, EY_BAD_REQUEST, "not a data: URL"), NULL;
    const char *head = url + skip, *comma = memchr(head, ',', rest < MAX_HEAD ? rest : MAX_HEAD);
    if (!comma)
        return ey_fail(
                   e, EY_BAD_REQUEST,
                   "the data: URL has no comma after its media type; use data:image/png;base64,…"),
               NULL;
    return check_head(head, (size_t)(comma - head), e) ? comma + 1 : NULL;
}

static bool fail_base64(const char *data, size_t length, size_t at, ey_err *e)
{
    if (at == length)
        return ey_fail(e, EY_BAD_REQUEST, "the image's base64 is cut off after %zu characters", at);
    if (data[at] == '-' || data[at] == '_')
        return ey_fail(e, EY_BAD_REQUEST,
                       "the image's base64 has '%c' at character %zu; use the standard "
                       "alphabet, with + and /",
                       data[at], at);
    return ey_fail(e, EY_BAD_REQUEST, "the image's base64 is malformed at character %zu", at);
}

static bool decode_media(struct media *out, const char *data, size_t length, ey_err *e)
{
    size_t at;
    return base64_decode(out->bytes, &out->n_bytes, data, length, &at) ||
           fail_base64(data, length, at, e);
}

bool media_decode_base64(struct media *out, const char *text, size_t n,
                         const struct media_policy *policy, ey_err *e)
{
    *out = (struct media){0};
    size_t most = n / 4 * 3;
    if (most > media_max_bytes(policy) + 2) return media_fail_too_large(policy, e);
    bool ok = media_reserve(out, base64_decode_room(n), policy, e) && decode_media(out, text, n, e);
    if (ok && out->n_bytes > media_max_bytes(policy)) ok = media_fail_too_large(policy, e);
    if (ok && !out->n_bytes)
        ok = ey_fail(e, EY_BAD_IMAGE, "Failed to load image: its base64 data is empty");
    if (ok)
        media_shrink(out);
    else
        media_free(out);
    return ok;
}

bool media_decode_data_url(struct media *out, const char *url, size_t n,
                           const struct media_policy *policy, ey_err *e)
{
    *out = (struct media){0};
    const char *data = find_base64_data(url, n, e);
    return data && media_decode_base64(out, data, n - (size_t)(data - url), policy, e);
}
