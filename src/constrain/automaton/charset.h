/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of code points, and encoding NFAs over code points as NFAs over bytes: UTF-8, or UTF-8 in a
 * JSON string. */
#ifndef EY_CONSTRAIN_CHARSET_H
#define EY_CONSTRAIN_CHARSET_H

#include "constrain/automaton/nfa.h"

struct code_point_range {
    uint32_t lo, hi;
};

struct charset {
    struct code_point_range *ranges;
    size_t n, capacity;
    bool failed; /* out of memory */
};

void charset_finish(struct charset *set);
void charset_clear(struct charset *set);
void charset_add(struct charset *set, uint32_t lo, uint32_t hi);
/* Sorts and merges the ranges, and drops surrogates and code points above U+10FFFF. */
void charset_normalize(struct charset *set);
/* Replaces the set by its complement, normalized. */
void charset_invert(struct charset *set);

/* Adds edges over code points for one character of a normalized set. */
void nfa_add_charset(struct nfa *nfa, uint32_t from, uint32_t to, const struct charset *set);

enum text_encoding {
    ENCODE_UTF8,        /* UTF-8 */
    ENCODE_JSON_STRING, /* in a JSON string, with the shortest escape where one is needed */
};

/* Adds the NFA `code_points`, which has no calls or assertions, to `bytes`, encoded. Leaves out
 * U+0000, which would end C strings. `flags` are set on each character's first byte. */
struct frag nfa_encode(struct nfa *bytes, const struct nfa *code_points, struct frag f,
                       enum text_encoding encoding, unsigned flags);

/* Adds edges for any character of a JSON string except U+0000, in all its encodings; surrogates
 * only in pairs. `flags` as above. */
void nfa_add_json_char(struct nfa *nfa, uint32_t from, uint32_t to, unsigned flags);

#endif
