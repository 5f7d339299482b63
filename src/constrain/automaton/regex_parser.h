/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions → NFAs over code points. The syntax is what ECMA-262 (with the flag u) and
 * Python share, as far as it is regular: literals, ., classes, \d \w \s, groups, alternatives,
 * greedy and lazy repeats, ^ and $. Look-around, back-references, \b, \p and flags are refused by
 * name. */
#ifndef EY_CONSTRAIN_REGEX_PARSER_H
#define EY_CONSTRAIN_REGEX_PARSER_H

#include "constrain/automaton/nfa.h"

/* Adds the expression to the NFA; ^ and $ become assertions (NFA_ASSERT_BEGIN, NFA_ASSERT_END). */
bool regex_parse(struct nfa *code_points, struct frag *out, const char *pattern, size_t n,
                 ey_err *e);

#endif
