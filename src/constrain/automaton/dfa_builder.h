/* SPDX-License-Identifier: Apache-2.0 */
/* Makes an NFA with rules deterministic: an automaton with a stack.
 *
 * A state is the set of NFA states that the text read so far may have led to, with the levels of
 * nesting that remain. Several rules may be called at one place (alternatives); those that begin
 * with the same byte are followed together, as one set, and when the closing byte comes, the set of
 * those that have ended (a return set) says where the caller continues. This is how visibly
 * pushdown automata are made deterministic, and it works because brackets show where rules begin
 * and end. States from which no text could be completed within the levels that remain are left out
 * from the start.
 *
 * The price is that sets may be many: limits of states, edges and work end that early. */
#ifndef EY_CONSTRAIN_DFA_BUILDER_H
#define EY_CONSTRAIN_DFA_BUILDER_H

#include "constrain/automaton/grammar_compiler.h"
#include "constrain/automaton/automaton.h"

/* All rules of c are built, body 0 of rule 0 is the whole. False: c has failed. */
bool determinize(struct grammar **out, struct compiler *c);

#endif
