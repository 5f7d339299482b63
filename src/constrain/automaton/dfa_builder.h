/* SPDX-License-Identifier: Apache-2.0 */
/* Converts an NFA with rules to a deterministic pushdown automaton.
 *
 * A state is the set of NFA states that the text so far may have reached, with the nesting levels
 * that remain. Alternatives may call several rules at one place: rules with the same first byte are
 * followed together as one set, and at the closing byte the set of rules that have ended (the
 * return set) selects where the caller continues. This is how visibly pushdown automata are
 * determinized; it works because brackets mark where rules begin and end. States from which no text
 * can be completed within the remaining levels are never created.
 *
 * The number of sets may explode, so states, edges and work are limited. */
#ifndef EY_CONSTRAIN_DFA_BUILDER_H
#define EY_CONSTRAIN_DFA_BUILDER_H

#include "constrain/automaton/grammar_compiler.h"
#include "constrain/automaton/automaton.h"

/* Expects that all rules of c are built; body 0 of rule 0 is the grammar. On failure c holds the
 * error. */
bool determinize(struct grammar **out, struct compiler *c);

#endif
