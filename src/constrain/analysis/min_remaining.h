/* SPDX-License-Identifier: Apache-2.0 */
/* How many characters the states of counted texts still need, so that no text is begun that the
 * counter's maximum could not complete. */
#ifndef EY_CONSTRAIN_MIN_REMAINING_H
#define EY_CONSTRAIN_MIN_REMAINING_H

#include "constrain/automaton/automaton.h"

/* Sets min_remaining of states, largest_min of counters and EDGE_RAISES_MIN of edges. Returns false
 * if out of memory. */
bool measure_min_remaining(struct grammar *g);

#endif
