/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-tokenization with PCRE2. A PCRE2 failure (match limit, out of memory) is an error: a text is
 * never silently split differently from the reference. */
#include "tokenizer/pretok.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/buf.h"
#include "base/limits.h"
#include "tokenizer/pretok_pattern.h"

enum { MAX_PATTERN_BYTES = 1 << 16, HEAP_LIMIT_KIB = 256 * 1024 };

static bool fail_pcre2(ey_err *e, ey_code code, const char *what, int error, size_t offset)
{
    char text[256] = "";
    pcre2_get_error_message(error, (PCRE2_UCHAR *)text, sizeof(text));
    return ey_fail(e, code, "%s: at byte %zu: %s", what, offset, text);
}

static bool pretok_compile_translated(struct pretok *p, const struct buf *pattern, const char *what,
                                      ey_err *e)
{
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) return ey_fail_memory(e, "pattern", pattern->size);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF); /* as "." in Oniguruma */
    int error = 0;
    PCRE2_SIZE offset = 0;
    p->code = pcre2_compile((PCRE2_SPTR)(pattern->data ? pattern->data : ""), pattern->size,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset,
                            context);
    pcre2_compile_context_free(context);
    if (!p->code) return fail_pcre2(e, EY_BAD_MODEL, what, error, offset);
    /* Without a JIT the interpreter does the same more slowly. */
    (void)pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);
    return true;
}

bool pretok_compile(struct pretok *p, const char *pattern, size_t n, const char *what, ey_err *e)
{
    if (n > MAX_PATTERN_BYTES)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: the pre_tokenizer pattern has %zu bytes; the limit is %d", what, n,
                       MAX_PATTERN_BYTES);
    struct buf translated = buf_with_max(16 * MAX_PATTERN_BYTES);
    bool ok = pretok_pattern_translate(&translated, pattern, n, what, e);
    if (ok && !pretok_compile_translated(p, &translated, "pre_tokenizer pattern", e))
        ok = ey_fail_within(e, "%s", what);
    buf_free(&translated);
    return ok;
}

void pretok_finish(struct pretok *p)
{
    pcre2_code_free(p->code);
    p->code = NULL;
}

bool pretok_scan_init(struct pretok_scan *s, const struct pretok *p, ey_err *e)
{
    *s = (struct pretok_scan){.pretok = p};
    s->match = pcre2_match_data_create(1, NULL);
    s->context = pcre2_match_context_create(NULL);
    if (!s->match || !s->context) return ey_fail_memory(e, "pattern matching", 0);
    pcre2_set_heap_limit(s->context, HEAP_LIMIT_KIB);
    return true;
}

void pretok_scan_finish(struct pretok_scan *s)
{
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->context);
    s->match = s->context = NULL;
}

void pretok_scan_begin(struct pretok_scan *s, const char *text, size_t n)
{
    s->text = text;
    s->n = n;
    s->at = s->match_begin = s->match_end = s->search = 0;
    s->exhausted = false;
    /* With this limit, a match can scan the whole segment and backtrack over it a few times. If
     * that is not enough, the pattern backtracks catastrophically. */
    uint64_t limit = 1000000 + 16 * (uint64_t)n;
    pcre2_set_match_limit(s->context, limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX);
}

static size_t pretok_next_character(const struct pretok_scan *s, size_t at)
{
    do
        at++;
    while (at < s->n && (s->text[at] & 0xc0) == 0x80);
    return at;
}

/* Calls pcre2_match at s->search. Skips its UTF-8 check, which would make the scan quadratic. */
static int pretok_match(struct pretok_scan *s)
{
    int rc = pcre2_match(s->pretok->code, (PCRE2_SPTR)s->text, s->n, s->search, PCRE2_NO_UTF_CHECK,
                         s->match, s->context);
    if (rc != PCRE2_ERROR_JIT_STACKLIMIT) return rc;
    return pcre2_match(s->pretok->code, (PCRE2_SPTR)s->text, s->n, s->search,
                       PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, s->match, s->context);
}

/* Finds the next match that splits the text: a non-empty one, or an empty one after s->at. */
static bool find_match(struct pretok_scan *s, ey_err *e)
{
    while (s->search < s->n) {
        int rc = pretok_match(s);
        if (rc == PCRE2_ERROR_NOMATCH) break;
        if (rc < 0)
            return fail_pcre2(e, EY_BAD_REQUEST, "the text cannot be split into words", rc,
                              s->search);
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(s->match);
        if (range[0] < s->search || range[1] < range[0] || range[1] > s->n)
            return ey_fail(e, EY_BAD_MODEL,
                           "pre_tokenizer pattern: a match at byte %zu runs backwards", s->search);
        s->match_begin = range[0];
        s->match_end = range[1];
        s->search = range[1] > range[0] ? range[1] : pretok_next_character(s, range[1]);
        if (s->match_end > s->at) return true;
    }
    s->exhausted = true;
    return true;
}

bool pretok_scan_next(struct pretok_scan *s, size_t *begin, size_t *end, ey_err *e)
{
    if (s->match_end <= s->at && !s->exhausted && !find_match(s, e)) return false;
    *begin = s->at;
    if (s->exhausted)
        *end = s->n;
    else if (s->match_begin > s->at)
        *end = s->match_begin;
    else
        *end = s->match_end;
    s->at = *end;
    return true;
}
