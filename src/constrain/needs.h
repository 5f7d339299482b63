/* SPDX-License-Identifier: Apache-2.0 */
/* States of counted texts: how many characters must still come, so that none is begun that cannot
 * be completed. */
#ifndef EY_CONSTRAIN_NEEDS_H
#define EY_CONSTRAIN_NEEDS_H

#include "constrain/grammar.h"

/* Sets `need` of the states, `most_needed` of the counters and EDGE_NEEDS of edges; false: no
 * memory. */
bool measure_counted(struct grammar *g);

#endif
