/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of code points, and nets over code points spelled as bytes: UTF-8, or UTF-8 inside of a JSON
 * string. */
#ifndef EY_CONSTRAIN_CHARSET_H
#define EY_CONSTRAIN_CHARSET_H

#include "constrain/automaton/nfa.h"

struct code_point_range {
    uint32_t lo, hi;
};

struct charset {
    struct code_point_range *ranges;
    size_t n, capacity;
    bool failed; /* no memory */
};

void charset_finish(struct charset *set);
void charset_clear(struct charset *set);
void charset_add(struct charset *set, uint32_t lo, uint32_t hi);
/* In order, none touching another, surrogates and what is above U+10FFFF left out. */
void charset_normalize(struct charset *set);
/* All other scalar values, tidy. */
void charset_invert(struct charset *set);

/* A single character of a tidy set, as edges over code points. */
void nfa_add_charset(struct nfa *nfa, uint32_t from, uint32_t to, const struct charset *set);

enum text_encoding {
    ENCODE_UTF8,        /* UTF-8 */
    ENCODE_JSON_STRING, /* in a JSON string: what must be escaped is, in its shortest way */
};

/* The net `chars`, over code points and without calls and assertions, as bytes in `bytes`. U+0000
 * is left out: C would end there. `flags` are of each character's first byte's edges. */
struct frag nfa_encode(struct nfa *bytes, const struct nfa *code_points, struct frag f,
                       enum text_encoding encoding, unsigned flags);

/* Edges for a JSON string's next character, any but U+0000, spelled in any way; surrogates only in
 * pairs. `flags` as above. */
void nfa_add_json_char(struct nfa *nfa, uint32_t from, uint32_t to, unsigned flags);

#endif
