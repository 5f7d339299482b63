/* SPDX-License-Identifier: Apache-2.0 */
/* States of counted texts: how many characters must still come, so that no text begins that its
 * counter cannot complete. */
#ifndef EY_CONSTRAIN_MIN_REMAINING_H
#define EY_CONSTRAIN_MIN_REMAINING_H

#include "constrain/automaton/automaton.h"

/* Sets min_remaining of the states, largest_min of the counters and EDGE_RAISES_MIN of edges.
 * False: no memory. */
bool measure_min_remaining(struct grammar *g);

#endif
