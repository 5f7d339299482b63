/* SPDX-License-Identifier: Apache-2.0 */
/* A recursive-descent parser of regular expressions. */
#include "constrain/automaton/regex_parser.h"

#include <string.h>

#include "base/hex.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "constrain/automaton/charset.h"

struct regex_parser {
    const char *begin, *at, *end;
    struct nfa *nfa;
    struct charset set; /* the class being parsed */
    int depth;
    ey_err *e;
};

static bool parse_alternatives(struct regex_parser *r, struct frag *out);

static bool fail_at(struct regex_parser *r, const char *at, const char *problem)
{
    return ey_fail(r->e, EY_BAD_REQUEST, "regular expression, byte %td: %s", at - r->begin,
                   problem);
}

static bool fail_construct(struct regex_parser *r, const char *at, int n, const char *name)
{
    return ey_fail(r->e, EY_BAD_REQUEST,
                   "regular expression, byte %td: \"%.*s\" (%s) is not supported", at - r->begin, n,
                   at, name);
}

static bool regex_next_is(const struct regex_parser *r, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(r->end - r->at) >= n && memcmp(r->at, text, n) == 0;
}

static bool regex_take(struct regex_parser *r, const char *text)
{
    if (!regex_next_is(r, text)) return false;
    r->at += strlen(text);
    return true;
}

/* Takes the next character; the pattern is well-formed UTF-8. */
static uint32_t take_char(struct regex_parser *r)
{
    uint32_t c = 0;
    r->at += utf8_decode(r->at, (size_t)(r->end - r->at), &c);
    return c;
}

/* ---- escapes ---- */

static void add_space(struct charset *set)
{
    static const struct code_point_range spaces[] = {
        {0x09, 0x0d},     {0x20, 0x20},     {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
        {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
    for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++)
        charset_add(set, spaces[i].lo, spaces[i].hi);
}

static void add_word(struct charset *set)
{
    charset_add(set, '0', '9');
    charset_add(set, 'A', 'Z');
    charset_add(set, '_', '_');
    charset_add(set, 'a', 'z');
}

/* Adds the class of a letter of d w s D W S. Returns false for other letters. */
static bool add_class(struct charset *set, char letter)
{
    struct charset named = {0};
    switch (letter | 0x20) {
    case 'd': charset_add(&named, '0', '9'); break;
    case 'w': add_word(&named); break;
    case 's': add_space(&named); break;
    default: return false;
    }
    if (!(letter & 0x20)) charset_invert(&named);
    for (size_t i = 0; i < named.n; i++)
        charset_add(set, named.ranges[i].lo, named.ranges[i].hi);
    set->failed |= named.failed;
    charset_finish(&named);
    return true;
}

static bool take_hex(struct regex_parser *r, int n, uint32_t *value)
{
    *value = 0;
    if (r->end - r->at < n) return fail_at(r, r->at, "hexadecimal digits are missing");
    for (int i = 0; i < n; i++) {
        int digit = hex_digit_value(*r->at++);
        if (digit < 0) return fail_at(r, r->at - 1, "a hexadecimal digit is missing");
        *value = *value << 4 | (uint32_t)digit;
    }
    return true;
}

/* Parses what follows \u: four digits, a surrogate pair, or digits in braces. */
static bool take_unicode(struct regex_parser *r, uint32_t *c)
{
    const char *begin = r->at;
    if (regex_take(r, "{")) {
        *c = 0;
        while (r->at < r->end && hex_digit_value(*r->at) >= 0 && *c <= 0x10ffff)
            *c = *c << 4 | (uint32_t)hex_digit_value(*r->at++);
        if (r->at == begin + 1 || !regex_take(r, "}"))
            return fail_at(r, begin, "\\u{...} is not closed or has no digits");
    } else {
        if (!take_hex(r, 4, c)) return false;
        uint32_t low;
        if (*c >= 0xd800 && *c < 0xdc00 && regex_take(r, "\\u")) {
            if (!take_hex(r, 4, &low)) return false;
            if (low < 0xdc00 || low > 0xdfff)
                return fail_at(r, begin, "half of a surrogate pair is not a character");
            *c = 0x10000 + ((*c - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    if (*c > 0x10ffff || (*c >= 0xd800 && *c <= 0xdfff))
        return fail_at(r, begin, "this is not a valid character");
    return true;
}

/* Parses an escape that stands for one character, from after its backslash on. */
static bool take_escaped(struct regex_parser *r, bool in_class, uint32_t *c)
{
    const char *at = r->at - 1;
    if (r->at == r->end) return fail_at(r, at, "the backslash at the end escapes nothing");
    static const char letters[] = "tnrfv0", values[] = "\t\n\r\f\v";
    char letter = *r->at;
    const char *known = strchr(letters, letter);
    if (letter == '0' && r->at + 1 < r->end && r->at[1] >= '0' && r->at[1] <= '9')
        return fail_construct(r, at, 3, "octal escape");
    if (known && letter) {
        r->at++;
        *c = (uint8_t)values[known - letters];
        return true;
    }
    if (letter == 'b' && in_class) {
        r->at++;
        *c = '\b';
        return true;
    }
    if (letter == 'x' || letter == 'u') {
        r->at++;
        return letter == 'x' ? take_hex(r, 2, c) : take_unicode(r, c);
    }
    if (letter == 'b' || letter == 'B') return fail_construct(r, at, 2, "word boundary");
    if (letter == 'p' || letter == 'P') return fail_construct(r, at, 2, "Unicode property");
    if ((letter >= '1' && letter <= '9') || letter == 'k')
        return fail_construct(r, at, 2, "back-reference");
    if ((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z'))
        return fail_construct(r, at, 2, "unknown escape");
    *c = take_char(r);
    return true;
}

/* ---- classes ---- */

/* Parses a character, which may be an end of a range, or a class such as \d. *single is false for
 * classes, which are added here. */
static bool take_class_member(struct regex_parser *r, struct charset *set, uint32_t *c,
                              bool *single)
{
    *single = true;
    if (regex_next_is(r, "[:")) return fail_construct(r, r->at, 2, "POSIX class");
    if (!regex_take(r, "\\")) {
        *c = take_char(r);
        return true;
    }
    if (r->at < r->end && add_class(set, *r->at)) {
        r->at++;
        *single = false;
        return true;
    }
    return take_escaped(r, true, c);
}

static bool parse_class(struct regex_parser *r, struct charset *set)
{
    const char *begin = r->at;
    bool inverted = regex_take(r, "^");
    if (regex_next_is(r, "]"))
        return fail_at(r, begin, "an empty class; write \\] for the bracket itself");
    while (!regex_take(r, "]")) {
        uint32_t lo = 0, hi = 0;
        bool single, single_hi;
        if (r->at == r->end) return fail_at(r, begin, "a class is not closed");
        const char *at = r->at;
        if (!take_class_member(r, set, &lo, &single)) return false;
        if (!regex_next_is(r, "-") || regex_next_is(r, "-]")) {
            if (single) charset_add(set, lo, lo);
            continue;
        }
        r->at++;
        if (r->at == r->end) return fail_at(r, begin, "a class is not closed");
        if (!take_class_member(r, set, &hi, &single_hi)) return false;
        if (!single || !single_hi || lo > hi)
            return fail_at(r, at, "this range is reversed, or has a class as an end");
        charset_add(set, lo, hi);
    }
    if (inverted)
        charset_invert(set);
    else
        charset_normalize(set);
    return true;
}

static bool frag_of_set(struct regex_parser *r, struct frag *out)
{
    if (r->set.failed)
        return ey_fail_memory(r->e, "a class of characters", r->set.n * sizeof(*r->set.ranges));
    *out = nfa_new_frag(r->nfa);
    nfa_add_charset(r->nfa, out->start, out->end, &r->set);
    return true;
}

static bool frag_of_char(struct regex_parser *r, uint32_t c, struct frag *out)
{
    *out = nfa_new_frag(r->nfa);
    nfa_add_span(r->nfa, out->start, out->end, c, c, 0);
    return true;
}

static bool frag_of_any(struct regex_parser *r, struct frag *out)
{
    charset_add(&r->set, '\n', '\n');
    charset_add(&r->set, '\r', '\r');
    charset_add(&r->set, 0x2028, 0x2029);
    charset_invert(&r->set);
    return frag_of_set(r, out);
}

/* ---- structure ---- */

/* Parses the kind of a group after "(?"; names are ignored. */
static bool take_group_kind(struct regex_parser *r)
{
    const char *at = r->at - 2;
    if (regex_take(r, ":")) return true;
    if (regex_next_is(r, "=") || regex_next_is(r, "!"))
        return fail_construct(r, at, 3, "look-ahead");
    if (regex_next_is(r, "<=") || regex_next_is(r, "<!"))
        return fail_construct(r, at, 4, "look-behind");
    if (regex_next_is(r, "P=") || regex_next_is(r, "P>"))
        return fail_construct(r, at, 4, "back-reference");
    if (!regex_take(r, "P<") && !regex_take(r, "<"))
        return fail_construct(r, at, r->at < r->end ? 3 : 2, "inline flag or special group");
    while (r->at < r->end && *r->at != '>' && *r->at != ')')
        r->at++;
    return regex_take(r, ">") || fail_at(r, at, "a group's name is not closed");
}

static bool parse_group(struct regex_parser *r, struct frag *out)
{
    const char *begin = r->at - 1;
    if (regex_take(r, "?") && !take_group_kind(r)) return false;
    if (++r->depth > EY_MAX_PATTERN_DEPTH) return fail_at(r, begin, "groups are nested too deeply");
    bool ok = parse_alternatives(r, out);
    r->depth--;
    return ok && (regex_take(r, ")") || fail_at(r, begin, "a group is not closed"));
}

static bool parse_atom(struct regex_parser *r, struct frag *out)
{
    charset_clear(&r->set);
    if (regex_take(r, "(")) return parse_group(r, out);
    if (regex_take(r, "[")) return parse_class(r, &r->set) && frag_of_set(r, out);
    if (regex_take(r, ".")) return frag_of_any(r, out);
    if (regex_next_is(r, "^") || regex_next_is(r, "$")) {
        *out = nfa_new_frag(r->nfa);
        nfa_add_assertion(r->nfa, out->start, out->end,
                          *r->at++ == '^' ? NFA_ASSERT_BEGIN : NFA_ASSERT_END);
        return true;
    }
    uint32_t c;
    if (!regex_take(r, "\\")) return frag_of_char(r, take_char(r), out);
    if (r->at < r->end && add_class(&r->set, *r->at)) {
        r->at++;
        charset_normalize(&r->set);
        return frag_of_set(r, out);
    }
    return take_escaped(r, false, &c) && frag_of_char(r, c, out);
}

/* Keeps large numbers below UINT32_MAX, which means no limit. They exceed any grammar's size
 * anyway. */
static bool take_number(struct regex_parser *r, uint32_t *value)
{
    enum { MOST = 100000000 };
    const char *begin = r->at;
    for (*value = 0; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        *value = *value < MOST ? *value * 10 + (uint32_t)(*r->at - '0') : *value;
    return r->at > begin;
}

struct repeat {
    uint32_t min, max;
};

/* Parses "{m}", "{m,}", "{m,n}", or, as Python does, "{,n}" and "{,}"; any other brace is a
 * literal. */
static bool take_braces(struct regex_parser *r, struct repeat *repeat)
{
    const char *begin = r->at++;
    if (take_number(r, &repeat->min) || regex_next_is(r, ",")) {
        repeat->max = repeat->min;
        if (regex_take(r, ",") && !take_number(r, &repeat->max)) repeat->max = UINT32_MAX;
        if (regex_take(r, "}")) return true;
    }
    r->at = begin;
    return false;
}

/* Returns false if no quantifier comes next. */
static bool take_quantifier(struct regex_parser *r, struct repeat *repeat)
{
    if (regex_next_is(r, "{")) return take_braces(r, repeat);
    if (regex_take(r, "*"))
        *repeat = (struct repeat){0, UINT32_MAX};
    else if (regex_take(r, "+"))
        *repeat = (struct repeat){1, UINT32_MAX};
    else if (regex_take(r, "?"))
        *repeat = (struct repeat){0, 1};
    else
        return false;
    return true;
}

static bool parse_repeated(struct regex_parser *r, struct frag *out)
{
    const char *at = r->at;
    uint32_t begin = r->nfa->n_states ? r->nfa->n_states : 1;
    struct repeat repeat;
    if (take_quantifier(r, &repeat)) return fail_at(r, at, "there is nothing to repeat");
    if (!parse_atom(r, out)) return false;
    at = r->at;
    if (!take_quantifier(r, &repeat)) return true;
    if (repeat.min > repeat.max) return fail_at(r, at, "the bounds of a repeat are reversed");
    if (regex_next_is(r, "+"))
        return fail_construct(r, at, (int)(r->at - at) + 1, "possessive repeat");
    regex_take(r, "?"); /* lazy: matches the same texts */
    *out = nfa_repeat(r->nfa, begin, *out, repeat.min, repeat.max);
    at = r->at;
    return !take_quantifier(r, &repeat) ||
           fail_at(r, at, "a repeat cannot be repeated; put the inner one in a group");
}

static bool parse_sequence(struct regex_parser *r, struct frag *out)
{
    *out = nfa_new_frag(r->nfa);
    nfa_add_epsilon(r->nfa, out->start, out->end);
    while (r->at < r->end && *r->at != '|' && *r->at != ')') {
        struct frag next;
        if (r->nfa->problem) return nfa_check(r->nfa, r->e);
        if (!parse_repeated(r, &next)) return false;
        *out = nfa_concat(r->nfa, *out, next);
    }
    return true;
}

static bool parse_alternatives(struct regex_parser *r, struct frag *out)
{
    struct frag all = nfa_new_frag(r->nfa);
    do {
        if (!parse_sequence(r, out)) return false;
        nfa_add_epsilon(r->nfa, all.start, out->start);
        nfa_add_epsilon(r->nfa, out->end, all.end);
    } while (regex_take(r, "|"));
    *out = all;
    return true;
}

bool regex_parse(struct nfa *nfa, struct frag *out, const char *pattern, size_t n, ey_err *e)
{
    struct regex_parser r = {
        .begin = pattern, .at = pattern, .end = pattern + n, .nfa = nfa, .e = e};
    if (n > EY_MAX_PATTERN_BYTES)
        return ey_fail(e, EY_BAD_REQUEST,
                       "a regular expression of %zu bytes is longer than the limit of %d", n,
                       EY_MAX_PATTERN_BYTES);
    if (!utf8_valid(pattern, n))
        return ey_fail(e, EY_BAD_REQUEST, "the regular expression is not UTF-8");
    bool ok = parse_alternatives(&r, out) && nfa_check(nfa, e);
    if (ok && r.at < r.end) ok = fail_at(&r, r.at, "unmatched closing parenthesis");
    charset_finish(&r.set);
    return ok;
}
