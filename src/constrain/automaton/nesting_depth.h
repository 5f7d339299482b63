/* SPDX-License-Identifier: Apache-2.0 */
/* Computes how many nesting levels rules and states need to complete a text. */
#ifndef EY_CONSTRAIN_NESTING_DEPTH_H
#define EY_CONSTRAIN_NESTING_DEPTH_H

#include "constrain/automaton/grammar_compiler.h"

enum { NO_COMPLETION = 255 };

/* Sets min_depth and max_depth of all rules. owner[s] is the rule of NFA state s. */
bool measure_rule_depths(struct compiler *c, const uint32_t *owner);
/* Sets min_depth[s] for the NFA states [begin, end), which have no edges to others: the fewest
 * levels that calls on the way to the rule's end need, or NO_COMPLETION if it is unreachable. */
bool measure_state_depths(struct compiler *c, const uint32_t *owner, uint32_t begin, uint32_t end,
                          uint8_t *min_depth);

#endif
