/* SPDX-License-Identifier: Apache-2.0 */
/* States that treat most plain characters alike (inside JSON strings). Which plain tokens they
 * allow depends only on the tokens' characters and length, so masks need no walk of the trie. In
 * strings most states are of this kind, and nearly all tokens are plain. */
#ifndef EY_CONSTRAIN_MAX_REMAINING_H
#define EY_CONSTRAIN_MAX_REMAINING_H

#include "constrain/automaton/automaton.h"

enum { MAX_PLAIN_SETS = 256 };

/* Sets plain_set and max_remaining of the states. False: no memory. */
bool measure_max_remaining(struct grammar *g);

#endif
