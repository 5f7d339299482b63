/* SPDX-License-Identifier: Apache-2.0 */
/* Parses regular expressions to NFAs over code points. The syntax is the regular subset that
 * ECMA-262 (with flag u) and Python share: literals, ., classes, \d \w \s, groups, alternatives,
 * greedy and lazy repeats, ^ and $. Look-around, back-references, \b, \p and flags are errors that
 * name them. */
#ifndef EY_CONSTRAIN_REGEX_PARSER_H
#define EY_CONSTRAIN_REGEX_PARSER_H

#include "constrain/automaton/nfa.h"

/* Adds the expression to the NFA; ^ and $ become assertions (NFA_ASSERT_BEGIN, NFA_ASSERT_END). */
bool regex_parse(struct nfa *code_points, struct frag *out, const char *pattern, size_t n,
                 ey_err *e);

#endif
