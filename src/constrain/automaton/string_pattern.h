/* SPDX-License-Identifier: Apache-2.0 */
/* NFAs over code points for the strings that regular expressions match. */
#ifndef EY_CONSTRAIN_STRING_PATTERN_H
#define EY_CONSTRAIN_STRING_PATTERN_H

#include "constrain/automaton/nfa.h"

struct string_pattern {
    const char *pattern;
    size_t n;
    bool anywhere; /* matches somewhere in the string, as JSON schema's `pattern` does; else the
                      whole */
};

struct length_bounds {
    uint32_t min, max; /* characters; max UINT32_MAX: any number */
};

bool string_pattern_compile(struct nfa *code_points, struct frag *out, struct string_pattern p,
                            struct length_bounds bounds, ey_err *e);
/* Texts that match both. */
bool string_pattern_intersect(struct nfa *code_points, struct frag *out, struct string_pattern p,
                              struct string_pattern q, struct length_bounds bounds, ey_err *e);

/* Characters of the shortest string of an NFA without assertions. UINT32_MAX: it has none, or there
 * is no memory (problem is set). */
uint32_t nfa_shortest_length(struct nfa *code_points, struct frag f);

#endif
