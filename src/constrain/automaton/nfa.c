/* SPDX-License-Identifier: Apache-2.0 */
/* States and edges in two growing arrays; each state has a linked list of edges. */
#include "constrain/automaton/nfa.h"

#include <stdlib.h>

struct nfa nfa_with_max(uint32_t max_states)
{
    return (struct nfa){.max_states = max_states};
}

void nfa_finish(struct nfa *nfa)
{
    free(nfa->states);
    free(nfa->edges);
    *nfa = (struct nfa){0};
}

static void *nfa_grow_array(struct nfa *nfa, void *array, uint32_t *capacity, size_t size)
{
    uint32_t more = *capacity ? *capacity * 2 : 256;
    void *memory = realloc(array, (size_t)more * size);
    if (!memory) {
        nfa->problem = NFA_NO_MEMORY;
        return NULL;
    }
    *capacity = more;
    return memory;
}

uint32_t nfa_add_state(struct nfa *nfa)
{
    if (nfa->n_states >= nfa->max_states && !nfa->problem) nfa->problem = NFA_TOO_LARGE;
    if (nfa->problem) return 0;
    if (nfa->n_states + 2 > nfa->states_capacity) {
        struct nfa_state *nodes = nfa_grow_array(nfa, nfa->states, &nfa->states_capacity,
                                                 sizeof(*nodes));
        if (!nodes) return 0;
        nfa->states = nodes;
        if (!nfa->n_states) nfa->states[nfa->n_states++] = (struct nfa_state){0};
    }
    nfa->states[nfa->n_states] = (struct nfa_state){0};
    return nfa->n_states++;
}

struct frag nfa_new_frag(struct nfa *nfa)
{
    uint32_t start = nfa_add_state(nfa);
    return (struct frag){start, nfa_add_state(nfa)};
}

/* An average over all states: most have few edges, those of character classes have many. */
enum { MAX_EDGES_PER_STATE = 4 };

static void nfa_add_edge(struct nfa *nfa, uint32_t from, struct nfa_edge edge)
{
    if (nfa->n_edges / MAX_EDGES_PER_STATE >= nfa->max_states && !nfa->problem)
        nfa->problem = NFA_TOO_LARGE;
    if (nfa->problem) return;
    if (nfa->n_edges + 2 > nfa->edges_capacity) {
        struct nfa_edge *edges = nfa_grow_array(nfa, nfa->edges, &nfa->edges_capacity,
                                                sizeof(*edges));
        if (!edges) return;
        nfa->edges = edges;
        if (!nfa->n_edges) nfa->edges[nfa->n_edges++] = (struct nfa_edge){0};
    }
    edge.next = nfa->states[from].last_edge;
    nfa->states[from].last_edge = nfa->n_edges;
    nfa->edges[nfa->n_edges++] = edge;
}

void nfa_add_epsilon(struct nfa *nfa, uint32_t from, uint32_t to)
{
    nfa_add_edge(nfa, from, (struct nfa_edge){.kind = NFA_EPSILON, .target = to});
}

void nfa_add_span(struct nfa *nfa, uint32_t from, uint32_t to, uint32_t lo, uint32_t hi,
                  unsigned flags)
{
    nfa_add_edge(nfa, from,
                 (struct nfa_edge){
                     .kind = NFA_SPAN, .target = to, .lo = lo, .hi = hi, .flags = (uint8_t)flags});
}

void nfa_add_call(struct nfa *nfa, uint32_t from, uint32_t to, uint32_t rule)
{
    nfa_add_edge(nfa, from, (struct nfa_edge){.kind = NFA_CALL, .target = to, .lo = rule});
}

void nfa_add_assertion(struct nfa *nfa, uint32_t from, uint32_t to, enum nfa_edge_kind kind)
{
    nfa_add_edge(nfa, from, (struct nfa_edge){.kind = (uint8_t)kind, .target = to});
}

uint32_t nfa_add_bytes(struct nfa *nfa, uint32_t from, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && !nfa->problem; i++) {
        uint32_t to = nfa_add_state(nfa);
        nfa_add_span(nfa, from, to, (uint8_t)bytes[i], (uint8_t)bytes[i], 0);
        from = to;
    }
    return from;
}

struct frag nfa_concat(struct nfa *nfa, struct frag a, struct frag b)
{
    nfa_add_epsilon(nfa, a.end, b.start);
    return (struct frag){a.start, b.end};
}

struct frag nfa_union(struct nfa *nfa, const struct frag *frags, size_t n)
{
    if (n == 1) return frags[0];
    struct frag all = nfa_new_frag(nfa);
    for (size_t i = 0; i < n; i++) {
        nfa_add_epsilon(nfa, all.start, frags[i].start);
        nfa_add_epsilon(nfa, frags[i].end, all.end);
    }
    return all;
}

struct frag nfa_one_or_more(struct nfa *nfa, struct frag f)
{
    struct frag all = nfa_new_frag(nfa);
    nfa_add_epsilon(nfa, all.start, f.start);
    nfa_add_epsilon(nfa, f.end, f.start);
    nfa_add_epsilon(nfa, f.end, all.end);
    return all;
}

struct frag nfa_copy(struct nfa *nfa, uint32_t begin, uint32_t end, struct frag f)
{
    uint32_t shift = nfa->n_states - begin;
    for (uint32_t s = begin; s < end && !nfa->problem; s++)
        nfa_add_state(nfa);
    for (uint32_t s = begin; s < end && !nfa->problem; s++)
        for (uint32_t i = nfa->states[s].last_edge; i && !nfa->problem; i = nfa->edges[i].next) {
            struct nfa_edge edge = nfa->edges[i];
            edge.target += shift;
            nfa_add_edge(nfa, s + shift, edge);
        }
    return nfa->problem ? (struct frag){0, 0} : (struct frag){f.start + shift, f.end + shift};
}

struct frag nfa_repeat(struct nfa *nfa, uint32_t begin, struct frag f, uint32_t min, uint32_t max)
{
    uint32_t end = nfa->n_states, period = end - begin,
             copies = max == UINT32_MAX ? (min ? min : 1) : max;
    /* make all copies before f is connected to anything */
    for (uint32_t i = 1; i < copies && !nfa->problem; i++)
        nfa_copy(nfa, begin, end, f);
    struct frag all = nfa_new_frag(nfa);
    uint32_t at = all.start;
    for (uint32_t i = 0; i < copies && !nfa->problem; i++) {
        uint32_t shift = i * period;
        if (i >= min) nfa_add_epsilon(nfa, at, all.end);
        nfa_add_epsilon(nfa, at, f.start + shift);
        if (i + 1 == copies && max == UINT32_MAX)
            nfa_add_epsilon(nfa, f.end + shift, f.start + shift);
        at = f.end + shift;
    }
    nfa_add_epsilon(nfa, at, all.end);
    return all;
}

bool nfa_check(const struct nfa *nfa, ey_err *e)
{
    if (nfa->problem == NFA_NO_MEMORY)
        return ey_fail_memory(e, "a grammar", (size_t)nfa->n_states * sizeof(*nfa->states));
    if (nfa->problem)
        return ey_fail(
            e, EY_BAD_REQUEST,
            "it is too large: its parts have more than %u states; use fewer or smaller counted "
            "repeats, lengths and alternatives",
            nfa->max_states);
    return true;
}
