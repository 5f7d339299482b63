/* SPDX-License-Identifier: Apache-2.0 */
/* Converts NFAs over code points to NFAs over bytes. A range of code points becomes a few sequences
 * of byte ranges, which share common suffixes. */
#include "constrain/automaton/charset.h"

#include <stdlib.h>

#include "base/utf8.h"

enum { LAST_CHAR = 0x10ffff, FIRST_SURROGATE = 0xd800, LAST_SURROGATE = 0xdfff };

/* ---- sets ---- */

void charset_finish(struct charset *set)
{
    free(set->ranges);
    *set = (struct charset){0};
}

void charset_clear(struct charset *set)
{
    set->n = 0;
}

void charset_add(struct charset *set, uint32_t lo, uint32_t hi)
{
    if (lo > hi || set->failed) return;
    if (set->n == set->capacity) {
        size_t capacity = set->capacity ? set->capacity * 2 : 16;
        struct code_point_range *span = realloc(set->ranges, capacity * sizeof(*span));
        if (!span) {
            set->failed = true;
            return;
        }
        set->ranges = span;
        set->capacity = capacity;
    }
    set->ranges[set->n++] = (struct code_point_range){lo, hi};
}

static int compare_ranges(const void *a, const void *b)
{
    const struct code_point_range *x = a, *y = b;
    return x->lo != y->lo ? (x->lo < y->lo ? -1 : 1) : (x->hi > y->hi) - (x->hi < y->hi);
}

/* Sorts the ranges and merges overlapping ones. */
static void charset_merge_ranges(struct charset *set)
{
    if (set->n) qsort(set->ranges, set->n, sizeof(*set->ranges), compare_ranges);
    size_t n = 0;
    for (size_t i = 0; i < set->n; i++) {
        struct code_point_range *last = n ? &set->ranges[n - 1] : NULL, s = set->ranges[i];
        if (last && s.lo <= last->hi + 1)
            last->hi = s.hi > last->hi ? s.hi : last->hi;
        else
            set->ranges[n++] = s;
    }
    set->n = n;
}

/* Removes lo..hi from merged ranges. */
static void charset_remove(struct charset *set, uint32_t lo, uint32_t hi)
{
    size_t n = set->n;
    for (size_t i = 0; i < n; i++) {
        struct code_point_range s = set->ranges[i];
        if (s.hi < lo || s.lo > hi) continue;
        if (s.hi > hi) charset_add(set, hi + 1, s.hi);
        if (s.lo < lo)
            set->ranges[i].hi = lo - 1;
        else
            set->ranges[i] = (struct code_point_range){1, 0}; /* empty */
    }
    size_t kept = 0;
    for (size_t i = 0; i < set->n; i++)
        if (set->ranges[i].lo <= set->ranges[i].hi) set->ranges[kept++] = set->ranges[i];
    set->n = kept;
    charset_merge_ranges(set);
}

void charset_normalize(struct charset *set)
{
    charset_merge_ranges(set);
    charset_remove(set, FIRST_SURROGATE, LAST_SURROGATE);
    charset_remove(set, LAST_CHAR + 1, UINT32_MAX - 1);
}

void charset_invert(struct charset *set)
{
    charset_merge_ranges(set);
    size_t n = set->n;
    uint32_t from = 0;
    for (size_t i = 0; i < n; i++) {
        struct code_point_range s = set->ranges[i];
        if (s.lo > from) charset_add(set, from, s.lo - 1);
        from = s.hi + 1;
    }
    if (from <= LAST_CHAR) charset_add(set, from, LAST_CHAR);
    set->n -= n;
    for (size_t i = 0; i < set->n; i++)
        set->ranges[i] = set->ranges[i + n];
    charset_normalize(set);
}

void nfa_add_charset(struct nfa *nfa, uint32_t from, uint32_t to, const struct charset *set)
{
    for (size_t i = 0; i < set->n; i++)
        nfa_add_span(nfa, from, to, set->ranges[i].lo, set->ranges[i].hi, 0);
}

/* ---- UTF-8 ---- */

/* For each target state: states from which n continuation bytes lead to it. */
struct suffix_cache {
    struct nfa *nfa;
    uint32_t *suffix[3]; /* [state] 0: not created yet */
    uint32_t to;         /* index into the arrays */
    uint32_t target;     /* the state in nfa */
    unsigned flags;      /* flags of the first byte's edge */
};

/* Returns the state from which n arbitrary continuation bytes lead to the target. */
static uint32_t suffix_state(struct suffix_cache *t, int n)
{
    if (!n) return t->target;
    uint32_t *known = &t->suffix[n - 1][t->to];
    if (!*known) {
        uint32_t next = suffix_state(t, n - 1);
        *known = nfa_add_state(t->nfa);
        nfa_add_span(t->nfa, *known, next, 0x80, 0xbf, 0);
    }
    return *known;
}

/* Adds edges for bytes i and up of the n-byte encodings lo..hi, which share the bytes before i. */
static void encode_byte_ranges(struct suffix_cache *t, uint32_t from, const char *lo,
                               const char *hi, int i, int n)
{
    uint8_t a = (uint8_t)lo[i], b = (uint8_t)hi[i];
    unsigned flags = i ? 0 : t->flags;
    if (i == n - 1) {
        nfa_add_span(t->nfa, from, t->target, a, b, flags);
        return;
    }
    bool lo_is_least = true, hi_is_most = true;
    for (int j = i + 1; j < n; j++) {
        lo_is_least &= (uint8_t)lo[j] == 0x80;
        hi_is_most &= (uint8_t)hi[j] == 0xbf;
    }
    if (a == b && !(lo_is_least && hi_is_most)) {
        uint32_t next = nfa_add_state(t->nfa);
        nfa_add_span(t->nfa, from, next, a, a, flags);
        encode_byte_ranges(t, next, lo, hi, i + 1, n);
        return;
    }
    static const char least[] = "\x80\x80\x80\x80", most[] = "\xbf\xbf\xbf\xbf";
    if (a < b && !lo_is_least) {
        uint32_t next = nfa_add_state(t->nfa);
        nfa_add_span(t->nfa, from, next, a, a, flags);
        encode_byte_ranges(t, next, lo, most, i + 1, n);
        a++;
    }
    if (a <= b && !hi_is_most) {
        uint32_t next = nfa_add_state(t->nfa);
        nfa_add_span(t->nfa, from, next, b, b, flags);
        encode_byte_ranges(t, next, least, hi, i + 1, n);
        b--;
    }
    if (a <= b) nfa_add_span(t->nfa, from, suffix_state(t, n - 1 - i), a, b, flags);
}

/* Adds edges for lo..hi in UTF-8, without surrogates. */
static void encode_utf8_range(struct suffix_cache *t, uint32_t from, uint32_t lo, uint32_t hi)
{
    static const uint32_t last_of[] = {0x7f, 0x7ff, FIRST_SURROGATE - 1, 0xffff, LAST_CHAR};
    for (int i = 0; i < 5 && lo <= hi; i++) {
        if (lo > last_of[i]) continue;
        uint32_t end = hi < last_of[i] ? hi : last_of[i];
        char first[4], last[4];
        int n = utf8_encode(lo, first);
        utf8_encode(end, last);
        encode_byte_ranges(t, from, first, last, 0, n);
        lo = end + 1 == FIRST_SURROGATE ? LAST_SURROGATE + 1 : end + 1;
    }
}

/* ---- JSON strings ---- */

/* Returns the letter of a character's short escape (\n), or 0 if it has none. */
static char escape_letter(uint32_t c)
{
    switch (c) {
    case '"': return '"';
    case '\\': return '\\';
    case '\b': return 'b';
    case '\f': return 'f';
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    default: return 0;
    }
}

static void encode_json_escape(struct suffix_cache *t, uint32_t from, uint32_t c)
{
    static const char hex[] = "0123456789abcdef";
    char text[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    int n = 6;
    if (escape_letter(c)) {
        text[1] = escape_letter(c);
        n = 2;
    }
    uint32_t escape = nfa_add_state(t->nfa),
             last = nfa_add_bytes(t->nfa, escape, text + 1, (size_t)n - 2);
    nfa_add_span(t->nfa, from, escape, '\\', '\\', t->flags);
    nfa_add_span(t->nfa, last, t->target, (uint8_t)text[n - 1], (uint8_t)text[n - 1], 0);
}

static void encode_json_range(struct suffix_cache *t, uint32_t from, uint32_t lo, uint32_t hi)
{
    for (uint32_t c = lo ? lo : 1; c < 0x20 && c <= hi; c++)
        encode_json_escape(t, from, c);
    if (lo < 0x20) lo = 0x20;
    static const uint32_t escaped[] = {'"', '\\'};
    for (int i = 0; i < 2; i++) {
        if (lo > escaped[i] || hi < escaped[i]) continue;
        encode_json_escape(t, from, escaped[i]);
        encode_utf8_range(t, from, lo, escaped[i] - 1);
        lo = escaped[i] + 1;
    }
    encode_utf8_range(t, from, lo, hi);
}

static void encode_edges(struct suffix_cache *t, const struct nfa *code_points, uint32_t state,
                         uint32_t base, enum text_encoding encoding)
{
    for (uint32_t i = code_points->states[state].last_edge; i; i = code_points->edges[i].next) {
        const struct nfa_edge *edge = &code_points->edges[i];
        t->to = edge->target;
        t->target = edge->target + base;
        if (edge->kind == NFA_EPSILON)
            nfa_add_epsilon(t->nfa, state + base, t->target);
        else if (encoding == ENCODE_JSON_STRING)
            encode_json_range(t, state + base, edge->lo, edge->hi);
        else
            encode_utf8_range(t, state + base, edge->lo ? edge->lo : 1, edge->hi);
    }
}

struct frag nfa_encode(struct nfa *bytes, const struct nfa *code_points, struct frag f,
                       enum text_encoding encoding, unsigned flags)
{
    uint32_t base = bytes->n_states ? bytes->n_states : 1;
    struct suffix_cache t = {.nfa = bytes, .flags = flags};
    uint32_t *memory = calloc(3 * (size_t)code_points->n_states + 1, sizeof(*memory));
    if (!memory) bytes->problem = NFA_NO_MEMORY;
    for (int i = 0; i < 3 && memory; i++)
        t.suffix[i] = memory + (size_t)i * code_points->n_states;
    for (uint32_t s = 0; s < code_points->n_states && !bytes->problem; s++) {
        uint32_t made = nfa_add_state(bytes);
        if (made) bytes->states[made].dominates = code_points->states[s].dominates;
    }
    for (uint32_t s = 0; s < code_points->n_states && !bytes->problem; s++)
        encode_edges(&t, code_points, s, base, encoding);
    free(memory);
    return bytes->problem ? (struct frag){0, 0} : (struct frag){f.start + base, f.end + base};
}

/* ---- any character of a JSON string ---- */

static void add_hex_digit(struct nfa *nfa, uint32_t from, uint32_t to, unsigned lo, unsigned hi)
{
    if (lo < 10) nfa_add_span(nfa, from, to, '0' + lo, '0' + (hi < 9 ? hi : 9), 0);
    if (hi < 10) return;
    unsigned letter = lo > 10 ? lo - 10 : 0;
    nfa_add_span(nfa, from, to, 'a' + letter, 'a' + hi - 10, 0);
    nfa_add_span(nfa, from, to, 'A' + letter, 'A' + hi - 10, 0);
}

/* Returns the state from which n hexadecimal digits lead to `to`. */
static uint32_t hex_suffix(struct nfa *nfa, uint32_t to, int n)
{
    for (; n; n--) {
        uint32_t from = nfa_add_state(nfa);
        add_hex_digit(nfa, from, to, 0, 15);
        to = from;
    }
    return to;
}

/* Adds the four digits after \u, except those of U+0000; surrogates only in pairs. */
static void add_unicode_escape(struct nfa *nfa, uint32_t from, uint32_t to)
{
    uint32_t two = hex_suffix(nfa, to, 2);
    uint32_t three = hex_suffix(nfa, two, 1);
    uint32_t one = hex_suffix(nfa, to, 1);
    uint32_t zero = nfa_add_state(nfa);
    uint32_t zeros = nfa_add_state(nfa);
    uint32_t zeroes = nfa_add_state(nfa);
    uint32_t d = nfa_add_state(nfa);
    uint32_t high = nfa_add_state(nfa);
    add_hex_digit(nfa, from, zero, 0, 0);
    add_hex_digit(nfa, from, three, 1, 12);
    add_hex_digit(nfa, from, d, 13, 13);
    add_hex_digit(nfa, from, three, 14, 15);
    add_hex_digit(nfa, zero, zeros, 0, 0);
    add_hex_digit(nfa, zero, two, 1, 15);
    add_hex_digit(nfa, zeros, zeroes, 0, 0);
    add_hex_digit(nfa, zeros, one, 1, 15);
    add_hex_digit(nfa, zeroes, to, 1, 15);
    add_hex_digit(nfa, d, two, 0, 7);
    add_hex_digit(nfa, d, hex_suffix(nfa, high, 2), 8, 11);
    uint32_t second = nfa_add_bytes(nfa, high, "\\u", 2), d2 = nfa_add_state(nfa);
    add_hex_digit(nfa, second, d2, 13, 13);
    add_hex_digit(nfa, d2, two, 12, 15);
}

void nfa_add_json_char(struct nfa *nfa, uint32_t from, uint32_t to, unsigned flags)
{
    uint32_t one = nfa_add_state(nfa);
    uint32_t two = nfa_add_state(nfa);
    uint32_t three = nfa_add_state(nfa);
    uint32_t e0 = nfa_add_state(nfa);
    uint32_t ed = nfa_add_state(nfa);
    uint32_t f0 = nfa_add_state(nfa);
    uint32_t f4 = nfa_add_state(nfa);
    uint32_t escape = nfa_add_state(nfa);
    nfa_add_span(nfa, from, to, 0x20, 0x21, flags);
    nfa_add_span(nfa, from, to, 0x23, 0x5b, flags);
    nfa_add_span(nfa, from, to, 0x5d, 0x7f, flags);
    nfa_add_span(nfa, from, one, 0xc2, 0xdf, flags);
    nfa_add_span(nfa, from, e0, 0xe0, 0xe0, flags);
    nfa_add_span(nfa, from, two, 0xe1, 0xec, flags);
    nfa_add_span(nfa, from, ed, 0xed, 0xed, flags);
    nfa_add_span(nfa, from, two, 0xee, 0xef, flags);
    nfa_add_span(nfa, from, f0, 0xf0, 0xf0, flags);
    nfa_add_span(nfa, from, three, 0xf1, 0xf3, flags);
    nfa_add_span(nfa, from, f4, 0xf4, 0xf4, flags);
    nfa_add_span(nfa, from, escape, '\\', '\\', flags);
    nfa_add_span(nfa, one, to, 0x80, 0xbf, 0);
    nfa_add_span(nfa, two, one, 0x80, 0xbf, 0);
    nfa_add_span(nfa, three, two, 0x80, 0xbf, 0);
    nfa_add_span(nfa, e0, one, 0xa0, 0xbf, 0);
    nfa_add_span(nfa, ed, one, 0x80, 0x9f, 0);
    nfa_add_span(nfa, f0, two, 0x90, 0xbf, 0);
    nfa_add_span(nfa, f4, two, 0x80, 0x8f, 0);
    for (const char *letter = "\"\\/bfnrt"; *letter; letter++)
        nfa_add_span(nfa, escape, to, (uint8_t)*letter, (uint8_t)*letter, 0);
    add_unicode_escape(nfa, nfa_add_bytes(nfa, escape, "u", 1), to);
}
