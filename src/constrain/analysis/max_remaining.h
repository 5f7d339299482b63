/* SPDX-License-Identifier: Apache-2.0 */
/* States to which most plain characters are alike: what they allow of the vocabulary's plain tokens
 * depends on the tokens' characters and length alone. In strings most states are of this kind, and
 * nearly all tokens are plain. */
#ifndef EY_CONSTRAIN_MAX_REMAINING_H
#define EY_CONSTRAIN_MAX_REMAINING_H

#include "constrain/automaton/automaton.h"

enum { MAX_PLAIN_SETS = 256 };

/* Finds alphabets and rooms of the states; false: no memory. */
bool measure_max_remaining(struct grammar *g);

#endif
