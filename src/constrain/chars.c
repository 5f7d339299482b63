/* SPDX-License-Identifier: Apache-2.0 */
/* Code points as bytes. A span of code points becomes a few sequences of byte ranges; what ends
 * alike is shared. */
#include "constrain/chars.h"

#include <stdlib.h>

#include "base/utf8.h"

enum { LAST_CHAR = 0x10ffff, FIRST_SURROGATE = 0xd800, LAST_SURROGATE = 0xdfff };

/* ---- sets
 * ---------------------------------------------------------------------------------------- */

void char_set_finish(struct char_set *set)
{
    free(set->span);
    *set = (struct char_set){0};
}

void char_set_clear(struct char_set *set)
{
    set->n = 0;
}

void char_set_add(struct char_set *set, uint32_t lo, uint32_t hi)
{
    if (lo > hi || set->failed) return;
    if (set->n == set->capacity) {
        size_t capacity = set->capacity ? set->capacity * 2 : 16;
        struct char_span *span = realloc(set->span, capacity * sizeof(*span));
        if (!span) {
            set->failed = true;
            return;
        }
        set->span = span;
        set->capacity = capacity;
    }
    set->span[set->n++] = (struct char_span){lo, hi};
}

static int span_order(const void *a, const void *b)
{
    const struct char_span *x = a, *y = b;
    return x->lo != y->lo ? (x->lo < y->lo ? -1 : 1) : (x->hi > y->hi) - (x->hi < y->hi);
}

/* Sorted spans without overlap. */
static void join_spans(struct char_set *set)
{
    if (set->n) qsort(set->span, set->n, sizeof(*set->span), span_order);
    size_t n = 0;
    for (size_t i = 0; i < set->n; i++) {
        struct char_span *last = n ? &set->span[n - 1] : NULL, s = set->span[i];
        if (last && s.lo <= last->hi + 1)
            last->hi = s.hi > last->hi ? s.hi : last->hi;
        else
            set->span[n++] = s;
    }
    set->n = n;
}

/* Sorted spans less what lies in lo..hi. */
static void cut_out(struct char_set *set, uint32_t lo, uint32_t hi)
{
    size_t n = set->n;
    for (size_t i = 0; i < n; i++) {
        struct char_span s = set->span[i];
        if (s.hi < lo || s.lo > hi) continue;
        if (s.hi > hi) char_set_add(set, hi + 1, s.hi);
        if (s.lo < lo)
            set->span[i].hi = lo - 1;
        else
            set->span[i] = (struct char_span){1, 0}; /* nothing */
    }
    size_t kept = 0;
    for (size_t i = 0; i < set->n; i++)
        if (set->span[i].lo <= set->span[i].hi) set->span[kept++] = set->span[i];
    set->n = kept;
    join_spans(set);
}

void char_set_tidy(struct char_set *set)
{
    join_spans(set);
    cut_out(set, FIRST_SURROGATE, LAST_SURROGATE);
    cut_out(set, LAST_CHAR + 1, UINT32_MAX - 1);
}

void char_set_invert(struct char_set *set)
{
    join_spans(set);
    size_t n = set->n;
    uint32_t from = 0;
    for (size_t i = 0; i < n; i++) {
        struct char_span s = set->span[i];
        if (s.lo > from) char_set_add(set, from, s.lo - 1);
        from = s.hi + 1;
    }
    if (from <= LAST_CHAR) char_set_add(set, from, LAST_CHAR);
    set->n -= n;
    for (size_t i = 0; i < set->n; i++)
        set->span[i] = set->span[i + n];
    char_set_tidy(set);
}

void net_chars(struct net *net, uint32_t from, uint32_t to, const struct char_set *set)
{
    for (size_t i = 0; i < set->n; i++)
        net_span(net, from, to, set->span[i].lo, set->span[i].hi, 0);
}

/* ---- UTF-8
 * --------------------------------------------------------------------------------------- */

/* For each state that edges lead to: states from which n more continuation bytes lead there. */
struct tails {
    struct net *net;
    uint32_t *more[3]; /* [state] 0: not made yet */
    uint32_t to;       /* index of the arrays */
    uint32_t target;   /* the state in net */
    unsigned flags;    /* of first bytes */
};

/* The state from which n arbitrary continuation bytes lead to the target. */
static uint32_t tail_of(struct tails *t, int n)
{
    if (!n) return t->target;
    uint32_t *known = &t->more[n - 1][t->to];
    if (!*known) {
        uint32_t next = tail_of(t, n - 1);
        *known = net_state(t->net);
        net_span(t->net, *known, next, 0x80, 0xbf, 0);
    }
    return *known;
}

/* Edges for the encodings lo..hi of n bytes from byte i on, which are equal before it. */
static void spell_bytes(struct tails *t, uint32_t from, const char *lo, const char *hi, int i,
                        int n)
{
    uint8_t a = (uint8_t)lo[i], b = (uint8_t)hi[i];
    unsigned flags = i ? 0 : t->flags;
    if (i == n - 1) {
        net_span(t->net, from, t->target, a, b, flags);
        return;
    }
    bool lo_is_least = true, hi_is_most = true;
    for (int j = i + 1; j < n; j++) {
        lo_is_least &= (uint8_t)lo[j] == 0x80;
        hi_is_most &= (uint8_t)hi[j] == 0xbf;
    }
    if (a == b && !(lo_is_least && hi_is_most)) {
        uint32_t next = net_state(t->net);
        net_span(t->net, from, next, a, a, flags);
        spell_bytes(t, next, lo, hi, i + 1, n);
        return;
    }
    static const char least[] = "\x80\x80\x80\x80", most[] = "\xbf\xbf\xbf\xbf";
    if (a < b && !lo_is_least) {
        uint32_t next = net_state(t->net);
        net_span(t->net, from, next, a, a, flags);
        spell_bytes(t, next, lo, most, i + 1, n);
        a++;
    }
    if (a <= b && !hi_is_most) {
        uint32_t next = net_state(t->net);
        net_span(t->net, from, next, b, b, flags);
        spell_bytes(t, next, least, hi, i + 1, n);
        b--;
    }
    if (a <= b) net_span(t->net, from, tail_of(t, n - 1 - i), a, b, flags);
}

/* Edges for lo..hi in UTF-8; none of them is a surrogate. */
static void spell_utf8(struct tails *t, uint32_t from, uint32_t lo, uint32_t hi)
{
    static const uint32_t last_of[] = {0x7f, 0x7ff, FIRST_SURROGATE - 1, 0xffff, LAST_CHAR};
    for (int i = 0; i < 5 && lo <= hi; i++) {
        if (lo > last_of[i]) continue;
        uint32_t end = hi < last_of[i] ? hi : last_of[i];
        char first[4], last[4];
        int n = utf8_encode(lo, first);
        utf8_encode(end, last);
        spell_bytes(t, from, first, last, 0, n);
        lo = end + 1 == FIRST_SURROGATE ? LAST_SURROGATE + 1 : end + 1;
    }
}

/* ---- JSON strings
 * -------------------------------------------------------------------------------- */

/* The letter of the short escape of a character that must be escaped; 0: it has none. */
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

static void spell_escaped(struct tails *t, uint32_t from, uint32_t c)
{
    static const char hex[] = "0123456789abcdef";
    char text[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    int n = 6;
    if (escape_letter(c)) {
        text[1] = escape_letter(c);
        n = 2;
    }
    uint32_t escape = net_state(t->net), last = net_bytes(t->net, escape, text + 1, (size_t)n - 2);
    net_span(t->net, from, escape, '\\', '\\', t->flags);
    net_span(t->net, last, t->target, (uint8_t)text[n - 1], (uint8_t)text[n - 1], 0);
}

static void spell_json(struct tails *t, uint32_t from, uint32_t lo, uint32_t hi)
{
    for (uint32_t c = lo ? lo : 1; c < 0x20 && c <= hi; c++)
        spell_escaped(t, from, c);
    if (lo < 0x20) lo = 0x20;
    static const uint32_t escaped[] = {'"', '\\'};
    for (int i = 0; i < 2; i++) {
        if (lo > escaped[i] || hi < escaped[i]) continue;
        spell_escaped(t, from, escaped[i]);
        spell_utf8(t, from, lo, escaped[i] - 1);
        lo = escaped[i] + 1;
    }
    spell_utf8(t, from, lo, hi);
}

static void spell_edges(struct tails *t, const struct net *chars, uint32_t state, uint32_t base,
                        enum spelling spelling)
{
    for (uint32_t i = chars->nodes[state].edge; i; i = chars->edges[i].next) {
        const struct net_edge *edge = &chars->edges[i];
        t->to = edge->target;
        t->target = edge->target + base;
        if (edge->kind == NET_EMPTY)
            net_empty(t->net, state + base, t->target);
        else if (spelling == SPELL_JSON)
            spell_json(t, state + base, edge->lo, edge->hi);
        else
            spell_utf8(t, state + base, edge->lo ? edge->lo : 1, edge->hi);
    }
}

struct frag net_spell(struct net *bytes, const struct net *chars, struct frag f,
                      enum spelling spelling, unsigned flags)
{
    uint32_t base = bytes->n_states ? bytes->n_states : 1;
    struct tails t = {.net = bytes, .flags = flags};
    uint32_t *memory = calloc(3 * (size_t)chars->n_states + 1, sizeof(*memory));
    if (!memory) bytes->problem = NET_NO_MEMORY;
    for (int i = 0; i < 3 && memory; i++)
        t.more[i] = memory + (size_t)i * chars->n_states;
    for (uint32_t s = 0; s < chars->n_states && !bytes->problem; s++) {
        uint32_t made = net_state(bytes);
        if (made) bytes->nodes[made].rest = chars->nodes[s].rest;
    }
    for (uint32_t s = 0; s < chars->n_states && !bytes->problem; s++)
        spell_edges(&t, chars, s, base, spelling);
    free(memory);
    return bytes->problem ? (struct frag){0, 0} : (struct frag){f.start + base, f.end + base};
}

/* ---- any character of a JSON string
 * -------------------------------------------------------------- */

static void hex_digit(struct net *net, uint32_t from, uint32_t to, unsigned lo, unsigned hi)
{
    if (lo < 10) net_span(net, from, to, '0' + lo, '0' + (hi < 9 ? hi : 9), 0);
    if (hi < 10) return;
    unsigned letter = lo > 10 ? lo - 10 : 0;
    net_span(net, from, to, 'a' + letter, 'a' + hi - 10, 0);
    net_span(net, from, to, 'A' + letter, 'A' + hi - 10, 0);
}

/* The state from which n hexadecimal digits lead to `to`. */
static uint32_t hex_tail(struct net *net, uint32_t to, int n)
{
    for (; n; n--) {
        uint32_t from = net_state(net);
        hex_digit(net, from, to, 0, 15);
        to = from;
    }
    return to;
}

/* The four digits behind \u: no NUL, and half a pair must be followed by the other half. */
static void unicode_escape(struct net *net, uint32_t from, uint32_t to)
{
    uint32_t two = hex_tail(net, to, 2), three = hex_tail(net, two, 1), one = hex_tail(net, to, 1);
    uint32_t zero = net_state(net), zeros = net_state(net), zeroes = net_state(net),
             d = net_state(net), high = net_state(net);
    hex_digit(net, from, zero, 0, 0);
    hex_digit(net, from, three, 1, 12);
    hex_digit(net, from, d, 13, 13);
    hex_digit(net, from, three, 14, 15);
    hex_digit(net, zero, zeros, 0, 0);
    hex_digit(net, zero, two, 1, 15);
    hex_digit(net, zeros, zeroes, 0, 0);
    hex_digit(net, zeros, one, 1, 15);
    hex_digit(net, zeroes, to, 1, 15);
    hex_digit(net, d, two, 0, 7);
    hex_digit(net, d, hex_tail(net, high, 2), 8, 11);
    uint32_t second = net_bytes(net, high, "\\u", 2), d2 = net_state(net);
    hex_digit(net, second, d2, 13, 13);
    hex_digit(net, d2, two, 12, 15);
}

void net_json_char(struct net *net, uint32_t from, uint32_t to, unsigned flags)
{
    uint32_t one = net_state(net), two = net_state(net), three = net_state(net);
    uint32_t e0 = net_state(net), ed = net_state(net), f0 = net_state(net), f4 = net_state(net),
             escape = net_state(net);
    net_span(net, from, to, 0x20, 0x21, flags);
    net_span(net, from, to, 0x23, 0x5b, flags);
    net_span(net, from, to, 0x5d, 0x7f, flags);
    net_span(net, from, one, 0xc2, 0xdf, flags);
    net_span(net, from, e0, 0xe0, 0xe0, flags);
    net_span(net, from, two, 0xe1, 0xec, flags);
    net_span(net, from, ed, 0xed, 0xed, flags);
    net_span(net, from, two, 0xee, 0xef, flags);
    net_span(net, from, f0, 0xf0, 0xf0, flags);
    net_span(net, from, three, 0xf1, 0xf3, flags);
    net_span(net, from, f4, 0xf4, 0xf4, flags);
    net_span(net, from, escape, '\\', '\\', flags);
    net_span(net, one, to, 0x80, 0xbf, 0);
    net_span(net, two, one, 0x80, 0xbf, 0);
    net_span(net, three, two, 0x80, 0xbf, 0);
    net_span(net, e0, one, 0xa0, 0xbf, 0);
    net_span(net, ed, one, 0x80, 0x9f, 0);
    net_span(net, f0, two, 0x90, 0xbf, 0);
    net_span(net, f4, two, 0x80, 0x8f, 0);
    for (const char *letter = "\"\\/bfnrt"; *letter; letter++)
        net_span(net, escape, to, (uint8_t)*letter, (uint8_t)*letter, 0);
    unicode_escape(net, net_bytes(net, escape, "u", 1), to);
}
