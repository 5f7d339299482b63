/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of code points, and NFAs over code points encoded as bytes: UTF-8, or UTF-8 in a JSON
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
/* Sorts and merges the ranges, and drops surrogates and what is above U+10FFFF. */
void charset_normalize(struct charset *set);
/* All other scalar values, normalized. */
void charset_invert(struct charset *set);

/* One character of a normalized set, as edges over code points. */
void nfa_add_charset(struct nfa *nfa, uint32_t from, uint32_t to, const struct charset *set);

enum text_encoding {
    ENCODE_UTF8,        /* UTF-8 */
    ENCODE_JSON_STRING, /* in a JSON string: characters that must be escaped have their shortest
                           escape */
};

/* Adds the NFA `code_points`, which has no calls or assertions, to `bytes` as an NFA over bytes.
 * Leaves out U+0000, which ends C strings. `flags` go to the edges of each character's first byte.
 */
struct frag nfa_encode(struct nfa *bytes, const struct nfa *code_points, struct frag f,
                       enum text_encoding encoding, unsigned flags);

/* Edges for any character of a JSON string but U+0000, in each of its encodings; surrogates only in
 * pairs. `flags` as above. */
void nfa_add_json_char(struct nfa *nfa, uint32_t from, uint32_t to, unsigned flags);

#endif
