/* SPDX-License-Identifier: Apache-2.0 */
/* Nets over code points for the texts that regular expressions match. */
#ifndef EY_CONSTRAIN_STRING_PATTERN_H
#define EY_CONSTRAIN_STRING_PATTERN_H

#include "constrain/automaton/nfa.h"

struct string_pattern {
    const char *pattern;
    size_t n;
    bool anywhere; /* it need only match somewhere in the text, as JSON schema's `pattern`; else all
                      of it */
};

struct length_bounds {
    uint32_t min, max; /* characters; max UINT32_MAX: any number */
};

bool string_pattern_compile(struct nfa *code_points, struct frag *out, struct string_pattern p,
                            struct length_bounds bounds, ey_err *e);
/* Texts that match both. */
bool string_pattern_intersect(struct nfa *code_points, struct frag *out, struct string_pattern p,
                              struct string_pattern q, struct length_bounds bounds, ey_err *e);

/* Characters of the shortest text of a net without assertions; UINT32_MAX: there is none, or no
 * memory (net->problem). */
uint32_t nfa_shortest_length(struct nfa *code_points, struct frag f);

#endif
