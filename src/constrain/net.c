/* SPDX-License-Identifier: Apache-2.0 */
/* States and edges in two growing arrays; a state's edges are a list. */
#include "constrain/net.h"

#include <stdlib.h>

struct net net_with_max(uint32_t max_states)
{
    return (struct net){.max_states = max_states};
}

void net_finish(struct net *net)
{
    free(net->nodes);
    free(net->edges);
    *net = (struct net){0};
}

static void *grown(struct net *net, void *array, uint32_t *capacity, size_t size)
{
    uint32_t more = *capacity ? *capacity * 2 : 256;
    void *memory = realloc(array, (size_t)more * size);
    if (!memory) return net->problem = NET_NO_MEMORY, NULL;
    *capacity = more;
    return memory;
}

uint32_t net_state(struct net *net)
{
    if (net->n_states >= net->max_states && !net->problem) net->problem = NET_TOO_LARGE;
    if (net->problem) return 0;
    if (net->n_states + 2 > net->states_capacity) {
        struct net_node *nodes = grown(net, net->nodes, &net->states_capacity, sizeof(*nodes));
        if (!nodes) return 0;
        net->nodes = nodes;
        if (!net->n_states) net->nodes[net->n_states++] = (struct net_node){0};
    }
    net->nodes[net->n_states] = (struct net_node){0};
    return net->n_states++;
}

struct frag net_frag(struct net *net)
{
    uint32_t start = net_state(net);
    return (struct frag){start, net_state(net)};
}

/* A net has few edges a state; character classes have many. */
enum { EDGES_A_STATE = 4 };

static void add_edge(struct net *net, uint32_t from, struct net_edge edge)
{
    if (net->n_edges / EDGES_A_STATE >= net->max_states && !net->problem)
        net->problem = NET_TOO_LARGE;
    if (net->problem) return;
    if (net->n_edges + 2 > net->edges_capacity) {
        struct net_edge *edges = grown(net, net->edges, &net->edges_capacity, sizeof(*edges));
        if (!edges) return;
        net->edges = edges;
        if (!net->n_edges) net->edges[net->n_edges++] = (struct net_edge){0};
    }
    edge.next = net->nodes[from].edge;
    net->nodes[from].edge = net->n_edges;
    net->edges[net->n_edges++] = edge;
}

void net_empty(struct net *net, uint32_t from, uint32_t to)
{
    add_edge(net, from, (struct net_edge){.kind = NET_EMPTY, .target = to});
}

void net_span(struct net *net, uint32_t from, uint32_t to, uint32_t lo, uint32_t hi, unsigned flags)
{
    add_edge(net, from,
             (struct net_edge){
                 .kind = NET_SPAN, .target = to, .lo = lo, .hi = hi, .flags = (uint8_t)flags});
}

void net_call(struct net *net, uint32_t from, uint32_t to, uint32_t rule)
{
    add_edge(net, from, (struct net_edge){.kind = NET_CALL, .target = to, .lo = rule});
}

void net_assert(struct net *net, uint32_t from, uint32_t to, enum net_kind kind)
{
    add_edge(net, from, (struct net_edge){.kind = (uint8_t)kind, .target = to});
}

uint32_t net_bytes(struct net *net, uint32_t from, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && !net->problem; i++) {
        uint32_t to = net_state(net);
        net_span(net, from, to, (uint8_t)bytes[i], (uint8_t)bytes[i], 0);
        from = to;
    }
    return from;
}

struct frag net_sequence(struct net *net, struct frag a, struct frag b)
{
    net_empty(net, a.end, b.start);
    return (struct frag){a.start, b.end};
}

struct frag net_alternatives(struct net *net, const struct frag *frags, size_t n)
{
    if (n == 1) return frags[0];
    struct frag all = net_frag(net);
    for (size_t i = 0; i < n; i++) {
        net_empty(net, all.start, frags[i].start);
        net_empty(net, frags[i].end, all.end);
    }
    return all;
}

struct frag net_some(struct net *net, struct frag f)
{
    struct frag all = net_frag(net);
    net_empty(net, all.start, f.start);
    net_empty(net, f.end, f.start);
    net_empty(net, f.end, all.end);
    return all;
}

struct frag net_copy(struct net *net, uint32_t begin, uint32_t end, struct frag f)
{
    uint32_t shift = net->n_states - begin;
    for (uint32_t s = begin; s < end && !net->problem; s++)
        net_state(net);
    for (uint32_t s = begin; s < end && !net->problem; s++)
        for (uint32_t i = net->nodes[s].edge; i && !net->problem; i = net->edges[i].next) {
            struct net_edge edge = net->edges[i];
            edge.target += shift;
            add_edge(net, s + shift, edge);
        }
    return net->problem ? (struct frag){0, 0} : (struct frag){f.start + shift, f.end + shift};
}

struct frag net_repeat(struct net *net, uint32_t begin, struct frag f, uint32_t min, uint32_t max)
{
    uint32_t end = net->n_states, period = end - begin,
             copies = max == UINT32_MAX ? (min ? min : 1) : max;
    /* all copies are made, one behind the other, before f is connected with anything */
    for (uint32_t i = 1; i < copies && !net->problem; i++)
        net_copy(net, begin, end, f);
    struct frag all = net_frag(net);
    uint32_t at = all.start;
    for (uint32_t i = 0; i < copies && !net->problem; i++) {
        uint32_t shift = i * period;
        if (i >= min) net_empty(net, at, all.end);
        net_empty(net, at, f.start + shift);
        if (i + 1 == copies && max == UINT32_MAX) net_empty(net, f.end + shift, f.start + shift);
        at = f.end + shift;
    }
    net_empty(net, at, all.end);
    return all;
}

bool net_check(const struct net *net, ey_err *e)
{
    if (net->problem == NET_NO_MEMORY)
        return ey_fail_memory(e, "a grammar", (size_t)net->n_states * sizeof(*net->nodes));
    if (net->problem)
        return ey_fail(
            e, EY_BAD_REQUEST,
            "it is too large: its parts have more than %u states; use fewer or smaller counted "
            "repeats, lengths and alternatives",
            net->max_states);
    return true;
}
