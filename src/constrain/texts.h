/* SPDX-License-Identifier: Apache-2.0 */
/* Nets over code points for the texts that regular expressions match. */
#ifndef EY_CONSTRAIN_TEXTS_H
#define EY_CONSTRAIN_TEXTS_H

#include "constrain/net.h"

struct pattern_text {
    const char *pattern;
    size_t n;
    bool anywhere; /* it need only match somewhere in the text, as JSON schema's `pattern`; else all
                      of it */
};

struct text_bounds {
    uint32_t min, max; /* characters; max UINT32_MAX: any number */
};

bool texts_of_pattern(struct net *chars, struct frag *out, struct pattern_text p,
                      struct text_bounds bounds, ey_err *e);
/* Texts that match both. */
bool texts_of_both(struct net *chars, struct frag *out, struct pattern_text p,
                   struct pattern_text q, struct text_bounds bounds, ey_err *e);

/* Characters of the shortest text of a net without assertions; UINT32_MAX: there is none, or no
 * memory (net->problem). */
uint32_t shortest_text(struct net *chars, struct frag f);

#endif
