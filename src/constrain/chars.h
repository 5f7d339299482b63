/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of code points, and nets over code points spelled as bytes: UTF-8, or UTF-8 inside of a JSON
 * string. */
#ifndef EY_CONSTRAIN_CHARS_H
#define EY_CONSTRAIN_CHARS_H

#include "constrain/net.h"

struct char_span {
    uint32_t lo, hi;
};

struct char_set {
    struct char_span *span;
    size_t n, capacity;
    bool failed; /* no memory */
};

void char_set_finish(struct char_set *set);
void char_set_clear(struct char_set *set);
void char_set_add(struct char_set *set, uint32_t lo, uint32_t hi);
/* In order, none touching another, surrogates and what is above U+10FFFF left out. */
void char_set_tidy(struct char_set *set);
/* All other scalar values, tidy. */
void char_set_invert(struct char_set *set);

/* A single character of a tidy set, as edges over code points. */
void net_chars(struct net *net, uint32_t from, uint32_t to, const struct char_set *set);

enum spelling {
    SPELL_TEXT, /* UTF-8 */
    SPELL_JSON, /* in a JSON string: what must be escaped is, in its shortest way */
};

/* The net `chars`, over code points and without calls and assertions, as bytes in `bytes`. U+0000
 * is left out: C would end there. `flags` are of each character's first byte's edges. */
struct frag net_spell(struct net *bytes, const struct net *chars, struct frag f,
                      enum spelling spelling, unsigned flags);

/* Edges for a JSON string's next character, any but U+0000, spelled in any way; surrogates only in
 * pairs. `flags` as above. */
void net_json_char(struct net *net, uint32_t from, uint32_t to, unsigned flags);

#endif
