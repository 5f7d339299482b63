/* SPDX-License-Identifier: Apache-2.0 */
/* States that treat most plain characters alike (inside JSON strings). Their masks follow from the
 * characters and lengths of plain tokens, without a walk of the trie. Most states within strings
 * are of this kind, and nearly all tokens are plain. */
#ifndef EY_CONSTRAIN_MAX_REMAINING_H
#define EY_CONSTRAIN_MAX_REMAINING_H

#include "constrain/automaton/automaton.h"

enum { MAX_PLAIN_SETS = 256 };

/* Sets plain_set and max_remaining of all states. Returns false if out of memory. */
bool measure_max_remaining(struct grammar *g);

#endif
