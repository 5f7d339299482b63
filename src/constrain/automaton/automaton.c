/* SPDX-License-Identifier: Apache-2.0 */
/* Reference counting of compiled grammars, which threads share. */
#include "constrain/automaton/automaton.h"

#include <stdlib.h>

struct grammar *grammar_retain(struct grammar *g)
{
    atomic_fetch_add(&g->references, 1);
    return g;
}

void grammar_release(struct grammar **grammar)
{
    struct grammar *g = *grammar;
    *grammar = NULL;
    if (!g || atomic_fetch_sub(&g->references, 1) > 1) return;
    free(g->states);
    free(g->edges);
    free(g->calls);
    free(g->call_sites);
    free(g->returns);
    free(g->counters);
    free(g->plain_sets);
    free(g);
}

size_t grammar_bytes(const struct grammar *g)
{
    return g->bytes;
}
