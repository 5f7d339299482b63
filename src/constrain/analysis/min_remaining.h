/* SPDX-License-Identifier: Apache-2.0 */
/* Computes how many characters each state of a counted text still needs. A matcher then refuses a
 * character after which the text could not be completed within the counter's maximum. */
#ifndef EY_CONSTRAIN_MIN_REMAINING_H
#define EY_CONSTRAIN_MIN_REMAINING_H

#include "constrain/automaton/automaton.h"

/* Sets min_remaining of states, largest_min of counters and EDGE_RAISES_MIN of edges. Returns false
 * if out of memory. */
bool measure_min_remaining(struct grammar *g);

#endif
