/* SPDX-License-Identifier: Apache-2.0 */
/* Which texts can be completed, and with how many levels of nesting. */
#ifndef EY_CONSTRAIN_NESTING_DEPTH_H
#define EY_CONSTRAIN_NESTING_DEPTH_H

#include "constrain/automaton/grammar_compiler.h"

enum { NO_COMPLETION = 255 };

/* Sets min_depth and max_depth of all rules. owner: the rule of each NFA state. */
bool measure_rule_depths(struct compiler *c, const uint32_t *owner);
/* Sets min_depth[s] of the NFA states begin..end-1, which lead nowhere else: the levels that calls
 * on the way to the end of their rule take at least. NO_COMPLETION: the end cannot be reached. */
bool measure_state_depths(struct compiler *c, const uint32_t *owner, uint32_t begin, uint32_t end,
                          uint8_t *min_depth);

#endif
