/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 repair and NFC.
 *
 * utf8proc has the character data, but its ordering of combining marks is quadratic: a megabyte of
 * them in a request would take minutes. We order marks by counting sort. Stable starters divide the
 * text into segments, and we decompose only those segments that NFC may change. */
#include "tokenizer/normalize.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

bool text_repair(struct buf *out, const char *text, size_t n)
{
    size_t good = 0; /* start of the valid bytes not yet copied */
    for (size_t i = 0; i < n;) {
        int length = utf8_decode(text + i, n - i, NULL);
        if (length > 0) {
            i += (size_t)length;
            continue;
        }
        if (!buf_add(out, text + good, i - good) || !buf_add(out, "\xef\xbf\xbd", 3)) return false;
        i += utf8_bad_length(text + i, n - i);
        good = i;
    }
    return buf_add(out, text + good, n - good);
}

/* Returns whether cp is a starter that NFC never changes and that never composes with the character
 * before it. The test is conservative: it excludes all marks and conjoining Hangul, since second
 * characters of compositions are among them. */
static bool is_stable(uint32_t cp)
{
    if (cp < 0x80 || (cp >= 0xac00 && cp <= 0xd7a3)) return true;
    if (cp >= 0x1100 && cp <= 0x11ff) return false;
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)cp);
    bool mark = p->category == UTF8PROC_CATEGORY_MN || p->category == UTF8PROC_CATEGORY_MC;
    return !mark && p->combining_class == 0 && p->decomp_seqindex == UINT16_MAX;
}

/* Returns the offset of the next unstable character at or after i, or n. *before is the offset of
 * the stable character before it, or i. */
static size_t next_unstable(const char *text, size_t n, size_t i, size_t *before)
{
    *before = i;
    while (i < n) {
        uint32_t cp = (uint8_t)text[i];
        int length = cp < 0x80 ? 1 : utf8_decode(text + i, n - i, &cp);
        if (!is_stable(cp)) return i;
        *before = i;
        i += (size_t)length;
    }
    return n;
}

bool text_nfc_quick_check(const char *text, size_t n)
{
    size_t before;
    return next_unstable(text, n, 0, &before) == n;
}

/* ---- one segment ---- */

enum { MAX_DECOMPOSITION = 32 }; /* code points; Unicode's longest canonical one has 4 */

struct nfc_segment {
    utf8proc_int32_t *cp, *scratch; /* [capacity] each */
    size_t n, capacity;
};

static bool nfc_segment_reserve(struct nfc_segment *s, size_t add)
{
    if (s->capacity - s->n >= add) return true;
    size_t capacity = s->capacity ? s->capacity * 2 : 256;
    utf8proc_int32_t *cp = realloc(s->cp, capacity * sizeof(*cp));
    if (cp) s->cp = cp;
    utf8proc_int32_t *scratch = realloc(s->scratch, capacity * sizeof(*scratch));
    if (scratch) s->scratch = scratch;
    if (!cp || !scratch) return false;
    s->capacity = capacity;
    return true;
}

static bool nfc_segment_decompose(struct nfc_segment *s, uint32_t cp)
{
    int boundary = 0;
    if (!nfc_segment_reserve(s, MAX_DECOMPOSITION)) return false;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, s->cp + s->n,
                                                 MAX_DECOMPOSITION,
                                                 UTF8PROC_STABLE | UTF8PROC_COMPOSE, &boundary);
    if (n < 0 || n > MAX_DECOMPOSITION) return false;
    s->n += (size_t)n;
    return true;
}

static int combining_class_of(utf8proc_int32_t cp)
{
    return cp < 0x80 ? 0 : utf8proc_get_property(cp)->combining_class;
}

/* Stable counting sort of marks by combining class. */
static void sort_marks(utf8proc_int32_t *marks, utf8proc_int32_t *scratch, size_t n)
{
    size_t first[257] = {0};
    for (size_t i = 0; i < n; i++)
        first[combining_class_of(marks[i]) + 1]++;
    for (int c = 0; c < 256; c++)
        first[c + 1] += first[c];
    for (size_t i = 0; i < n; i++)
        scratch[first[combining_class_of(marks[i])]++] = marks[i];
    memcpy(marks, scratch, n * sizeof(*marks));
}

static void nfc_segment_order(struct nfc_segment *s)
{
    for (size_t i = 0; i < s->n;) {
        size_t begin = i;
        bool ordered = true;
        for (int last = 0, class; i < s->n && (class = combining_class_of(s->cp[i])) != 0; i++) {
            ordered = ordered && class >= last;
            last = class;
        }
        if (!ordered) sort_marks(s->cp + begin, s->scratch, i - begin);
        if (i == begin) i++;
    }
}

static bool nfc_segment_write(struct nfc_segment *s, struct buf *out)
{
    nfc_segment_order(s);
    utf8proc_ssize_t n = utf8proc_normalize_utf32(s->cp, (utf8proc_ssize_t)s->n,
                                                  UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    for (utf8proc_ssize_t i = 0; i < n; i++) {
        char bytes[4];
        if (!buf_add(out, bytes, (size_t)utf8_encode((uint32_t)s->cp[i], bytes))) return false;
    }
    return n >= 0;
}

/* Appends the NFC form of the segment from `begin` to the first stable character after `unstable`.
 * Returns that character's offset, or 0 on failure. */
static size_t compose_nfc_segment(struct nfc_segment *s, struct buf *out, const char *text,
                                  size_t n, size_t begin, size_t unstable)
{
    s->n = 0;
    size_t i = begin;
    while (i < n) {
        uint32_t cp = 0;
        int length = utf8_decode(text + i, n - i, &cp);
        if (i > unstable && is_stable(cp)) break;
        if (!nfc_segment_decompose(s, cp)) return 0;
        i += (size_t)length;
    }
    return nfc_segment_write(s, out) ? i : 0;
}

bool text_nfc(struct buf *out, const char *text, size_t n)
{
    struct nfc_segment s = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < n;) {
        size_t begin, unstable = next_unstable(text, n, i, &begin);
        if (unstable == n) begin = n;
        ok = buf_add(out, text + i, begin - i);
        i = begin;
        if (ok && i < n) ok = (i = compose_nfc_segment(&s, out, text, n, begin, unstable)) != 0;
    }
    free(s.cp);
    free(s.scratch);
    return ok;
}

/* ---- SentencePiece ---- */

bool text_add_dummy_prefix(struct buf *out, const char *text, size_t n)
{
    static const char mark[] = "\xe2\x96\x81";
    const char *at;
    if (n && !buf_add(out, " ", 1)) return false;
    for (; (at = memmem(text, n, mark, 3)); n -= (size_t)(at + 3 - text), text = at + 3)
        if (!buf_add(out, text, (size_t)(at - text)) || !buf_add(out, " ", 1)) return false;
    return buf_add(out, text, n);
}
