/* SPDX-License-Identifier: Apache-2.0 */
/* NFAs over code points for the strings that regular expressions match. */
#ifndef EY_CONSTRAIN_STRING_PATTERN_H
#define EY_CONSTRAIN_STRING_PATTERN_H

#include "constrain/automaton/nfa.h"

struct string_pattern {
    const char *pattern;
    size_t n;
    bool anywhere; /* matches anywhere in the string, as JSON schema's `pattern` does, else the
                     whole string */
};

struct length_bounds {
    uint32_t min, max; /* characters; UINT32_MAX means no maximum */
};

bool string_pattern_compile(struct nfa *code_points, struct frag *out, struct string_pattern p,
                            struct length_bounds bounds, ey_err *e);
/* Builds an NFA of the strings that match both patterns. */
bool string_pattern_intersect(struct nfa *code_points, struct frag *out, struct string_pattern p,
                              struct string_pattern q, struct length_bounds bounds, ey_err *e);

/* Returns the length of the shortest string of an NFA without assertions. Returns UINT32_MAX if it
 * has none, or if out of memory (then `problem` is set). */
uint32_t nfa_shortest_length(struct nfa *code_points, struct frag f);

#endif
