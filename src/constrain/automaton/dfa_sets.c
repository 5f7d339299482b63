/* SPDX-License-Identifier: Apache-2.0 */
/* Bounded growing arrays, and sets interned by their members. */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "constrain/automaton/dfa_builder_internal.h"

struct growing_array growing_array_of(uint32_t size, uint32_t max)
{
    return (struct growing_array){.size = size, .max = max};
}

void *dfa_push(struct dfa_builder *d, struct growing_array *l)
{
    if (l->n >= l->max) {
        compiler_fail(d->c,
                      "it is too large or too ambiguous: once made deterministic, it has more than "
                      "%u states, edges or set members; use fewer or smaller counted repeats, "
                      "lengths and alternatives",
                      l->max);
        return NULL;
    }
    if (l->n == l->capacity) {
        uint32_t capacity = l->capacity ? l->capacity * 2 : 64;
        void *data = realloc(l->data, (size_t)capacity * l->size);
        if (!data) {
            compiler_fail_memory(d->c, "a grammar", (size_t)capacity * l->size);
            return NULL;
        }
        l->data = data;
        l->capacity = capacity;
    }
    return (char *)l->data + (size_t)l->n++ * l->size;
}

void dfa_push_u32(struct dfa_builder *d, struct growing_array *l, uint32_t value)
{
    uint32_t *at = dfa_push(d, l);
    if (at) *at = value;
}

bool dfa_count_work(struct dfa_builder *d, uint64_t steps)
{
    d->work += steps;
    return d->work <= EY_MAX_GRAMMAR_BUILD_STEPS ||
           compiler_fail(d->c, "it is too large or too ambiguous: it takes too long to compile");
}

int compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void growing_array_sort_unique(struct growing_array *l)
{
    uint32_t *v = l->data, n = 0;
    if (l->n > 1) qsort(v, l->n, sizeof(*v), compare_u32);
    for (uint32_t i = 0; i < l->n; i++)
        if (!n || v[n - 1] != v[i]) v[n++] = v[i];
    l->n = n;
}

/* The hash does not depend on the members' order. */
static uint32_t number_set_hash(const uint32_t *v, uint32_t n, uint32_t depth_left)
{
    uint64_t hash = depth_left * 0xbf58476d1ce4e5b9u;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t one = (v[i] + 1) * 0x9e3779b97f4a7c15u;
        hash += one ^ one >> 29;
    }
    hash *= 0x94d049bb133111ebu;
    return (uint32_t)(hash >> 32);
}

static bool grow_set_index(struct dfa_builder *d, struct set_index *index,
                           const struct growing_array *sets)
{
    uint32_t size = index->size ? index->size * 2 : 256;
    uint32_t *slot = calloc(size, sizeof(*slot));
    if (!slot) return compiler_fail_memory(d->c, "a grammar", size * sizeof(*slot));
    for (uint32_t i = 0; i < sets->n; i++) {
        uint32_t at = dfa_set_at(sets, i)->hash & (size - 1);
        while (slot[at])
            at = (at + 1) & (size - 1);
        slot[at] = i + 1;
    }
    free(index->slots);
    index->slots = slot;
    index->size = size;
    return true;
}

/* Whether l and the set s, which are of the same size, have the same members. If `marked`, l is
 * d->closure, whose states carry the current stamp; otherwise both are sorted. */
static bool has_members(const struct dfa_builder *d, const struct number_set *s,
                        const struct growing_array *l, bool marked)
{
    const uint32_t *members = growing_array_u32(&d->members) + s->first;
    if (!marked) return memcmp(members, l->data, l->n * sizeof(*members)) == 0;
    for (uint32_t i = 0; i < s->n; i++)
        if (d->visited[members[i]] != d->stamp) return false;
    return true;
}

uint32_t dfa_intern_set(struct dfa_builder *d, struct growing_array *sets, struct set_index *index,
                        const struct growing_array *l, uint32_t depth_left, bool *made)
{
    const uint32_t *v = l->data;
    bool marked = l == &d->closure;
    uint32_t hash = number_set_hash(v, l->n, depth_left);
    *made = false;
    if (d->c->failed || (index->size <= sets->n * 2 && !grow_set_index(d, index, sets)))
        return UINT32_MAX;
    uint32_t at = hash & (index->size - 1);
    for (; index->slots[at]; at = (at + 1) & (index->size - 1)) {
        const struct number_set *s = dfa_set_at(sets, index->slots[at] - 1);
        if (s->hash == hash && s->n == l->n && s->depth_left == depth_left &&
            has_members(d, s, l, marked))
            return index->slots[at] - 1;
    }
    struct number_set new = {
        .first = d->members.n, .n = l->n, .hash = hash, .depth_left = depth_left};
    for (uint32_t i = 0; i < l->n; i++)
        dfa_push_u32(d, &d->members, v[i]);
    void *element = dfa_push(d, sets);
    if (!element || d->c->failed) return UINT32_MAX;
    memset(element, 0, sets->size);
    memcpy(element, &new, sizeof(new));
    index->slots[at] = sets->n;
    *made = true;
    return sets->n - 1;
}
