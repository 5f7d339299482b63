/* SPDX-License-Identifier: Apache-2.0 */
/* Translates an Oniguruma pattern to PCRE2.
 *
 * The reference runs these patterns with Oniguruma (Ruby syntax, UTF-8). With its options UTF and
 * UCP, PCRE2 agrees on literals, classes, \p{…}, quantifiers, groups, look-around and (?i:…), which
 * makes "ſ" equal to "s" in both. In PCRE2 \s also matches U+180E, so it is translated to
 * \p{White_Space}. \w \b \h \v [[:alpha:]] && ^ $ {n,m}+ and others have another meaning in
 * PCRE2: they are refused with an error that names them. */
#include "tokenizer/pretok_pattern.h"

#include <string.h>

struct pattern_reader {
    const char *p, *end, *begin;
    const char *what;
    bool in_class;
    struct buf *out;
    ey_err *e;
};

static bool fail_pattern_construct(const struct pattern_reader *s, const char *construct, size_t n)
{
    return ey_fail(s->e, EY_BAD_MODEL,
                   "%s: pre_tokenizer pattern: \"%.*s\" at byte %zu is not supported", s->what,
                   (int)n, construct, (size_t)(s->p - s->begin));
}

static bool pattern_starts_with(const struct pattern_reader *s, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(s->end - s->p) >= n && !memcmp(s->p, text, n);
}

static bool copy_pattern_bytes(struct pattern_reader *s, size_t n)
{
    bool ok = buf_add(s->out, s->p, n);
    s->p += n;
    return ok || ey_fail_memory(s->e, "pattern", n);
}

static bool write_instead(struct pattern_reader *s, size_t n, const char *text)
{
    s->p += n;
    return buf_add_text(s->out, text) || ey_fail_memory(s->e, "pattern", n);
}

static bool is_ascii_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Length of the escape at s->p, including the braces of \p{…} and \x{…}. */
static size_t escape_length(const struct pattern_reader *s)
{
    const char *close = NULL;
    if (strchr("pPx", s->p[1]) && s->end - s->p > 2 && s->p[2] == '{')
        close = memchr(s->p, '}', (size_t)(s->end - s->p));
    return close ? (size_t)(close - s->p) + 1 : 2;
}

static bool translate_escape(struct pattern_reader *s)
{
    if (s->end - s->p < 2) return fail_pattern_construct(s, s->p, 1);
    char c = s->p[1];
    if (c == 's') return write_instead(s, 2, "\\p{White_Space}");
    if (c == 'S') return write_instead(s, 2, "\\P{White_Space}");
    if (is_ascii_alnum(c) && !strchr("rntfdDpPx", c)) return fail_pattern_construct(s, s->p, 2);
    return copy_pattern_bytes(s, escape_length(s));
}

static bool translate_in_class(struct pattern_reader *s)
{
    if (*s->p == '[' || pattern_starts_with(s, "&&"))
        return fail_pattern_construct(s, s->p, *s->p == '[' ? 1 : 2);
    if (*s->p == ']') s->in_class = false;
    return copy_pattern_bytes(s, 1);
}

/* Reads "[" or "[^". A "]" right after it is a literal in PCRE2 and an error in Oniguruma. */
static bool open_class(struct pattern_reader *s)
{
    size_t n = pattern_starts_with(s, "[^") ? 2 : 1;
    if (s->p + n < s->end && s->p[n] == ']') return fail_pattern_construct(s, s->p, n + 1);
    s->in_class = true;
    return copy_pattern_bytes(s, n);
}

/* Returns the length of "(?" with the flags m or x, or with the number of a group to call, all of
 * which mean something else in PCRE2. Returns 0 for other text. */
static size_t differing_group(const struct pattern_reader *s)
{
    const char *at = s->p + 2;
    bool differs = false;
    if (!pattern_starts_with(s, "(?")) return 0;
    if (at < s->end && *at >= '0' && *at <= '9') return 3;
    for (; at < s->end && (*at == '-' || is_ascii_alnum(*at)); at++)
        differs = differs || *at == 'm' || *at == 'x';
    return differs ? (size_t)(at - s->p) : 0;
}

static bool translate_outside_class(struct pattern_reader *s)
{
    static const char *const differ[] = {"^",   "$",   "(*",  "(?#", "(?R",
                                         "(?C", "(?&", "(?P", "}+",  "{,"};
    size_t group = differing_group(s);
    if (group) return fail_pattern_construct(s, s->p, group);
    for (size_t i = 0; i < sizeof(differ) / sizeof(differ[0]); i++)
        if (pattern_starts_with(s, differ[i]))
            return fail_pattern_construct(s, differ[i], strlen(differ[i]));
    return *s->p == '[' ? open_class(s) : copy_pattern_bytes(s, 1);
}

bool pretok_pattern_translate(struct buf *out, const char *pattern, size_t n, const char *what,
                              ey_err *e)
{
    struct pattern_reader s = {
        .p = pattern, .begin = pattern, .end = pattern + n, .what = what, .out = out, .e = e};
    while (s.p < s.end) {
        bool ok = *s.p == '\\' ? translate_escape(&s)
                  : s.in_class ? translate_in_class(&s)
                               : translate_outside_class(&s);
        if (!ok) return false;
    }
    return true;
}
