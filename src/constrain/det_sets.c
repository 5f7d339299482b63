/* SPDX-License-Identifier: Apache-2.0 */
/* Lists that grow to a maximum, and sets that are known by their members. */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "constrain/det.h"

struct list list_of(uint32_t size, uint32_t max)
{
    return (struct list){.size = size, .max = max};
}

void *det_push(struct det *d, struct list *l)
{
    if (l->n >= l->max) {
        compiler_fail(d->c,
                      "it is too large or too ambiguous: made deterministic it has more than %u "
                      "parts; use fewer or smaller "
                      "counted repeats, lengths and alternatives",
                      l->max);
        return NULL;
    }
    if (l->n == l->capacity) {
        uint32_t capacity = l->capacity ? l->capacity * 2 : 64;
        void *data = realloc(l->data, (size_t)capacity * l->size);
        if (!data) return compiler_fail_memory(d->c, "a grammar", (size_t)capacity * l->size), NULL;
        l->data = data;
        l->capacity = capacity;
    }
    return (char *)l->data + (size_t)l->n++ * l->size;
}

void det_push_number(struct det *d, struct list *l, uint32_t value)
{
    uint32_t *at = det_push(d, l);
    if (at) *at = value;
}

bool det_count_work(struct det *d, uint64_t steps)
{
    d->work += steps;
    return d->work <= EY_MAX_GRAMMAR_WORK ||
           compiler_fail(d->c, "it is too large or too ambiguous: it takes too long to compile");
}

int number_order(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void list_tidy(struct list *l)
{
    uint32_t *v = l->data, n = 0;
    if (l->n > 1) qsort(v, l->n, sizeof(*v), number_order);
    for (uint32_t i = 0; i < l->n; i++)
        if (!n || v[n - 1] != v[i]) v[n++] = v[i];
    l->n = n;
}

/* The same in whatever order the members come. */
static uint32_t set_hash(const uint32_t *v, uint32_t n, uint32_t level)
{
    uint64_t hash = level * 0xbf58476d1ce4e5b9u;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t one = (v[i] + 1) * 0x9e3779b97f4a7c15u;
        hash += one ^ one >> 29;
    }
    hash *= 0x94d049bb133111ebu;
    return (uint32_t)(hash >> 32);
}

static bool grow_index(struct det *d, struct set_index *index, const struct list *sets)
{
    uint32_t size = index->size ? index->size * 2 : 256;
    uint32_t *slot = calloc(size, sizeof(*slot));
    if (!slot) return compiler_fail_memory(d->c, "a grammar", size * sizeof(*slot));
    for (uint32_t i = 0; i < sets->n; i++) {
        uint32_t at = det_set_at(sets, i)->hash & (size - 1);
        while (slot[at])
            at = (at + 1) & (size - 1);
        slot[at] = i + 1;
    }
    free(index->slot);
    index->slot = slot;
    index->size = size;
    return true;
}

/* All members of a set of l->n are in l: as marks of the last walk say, where `marked`, else both
 * are in order. */
static bool has_members(const struct det *d, const struct set *s, const struct list *l, bool marked)
{
    const uint32_t *members = list_numbers(&d->members) + s->at;
    if (!marked) return memcmp(members, l->data, l->n * sizeof(*members)) == 0;
    for (uint32_t i = 0; i < s->n; i++)
        if (d->mark[members[i]] != d->stamp) return false;
    return true;
}

uint32_t det_set_number(struct det *d, struct list *sets, struct set_index *index,
                        const struct list *l, uint32_t level, bool *made)
{
    const uint32_t *v = l->data;
    bool marked = l == &d->found;
    uint32_t hash = set_hash(v, l->n, level);
    *made = false;
    if (d->c->failed || (index->size <= sets->n * 2 && !grow_index(d, index, sets)))
        return UINT32_MAX;
    uint32_t at = hash & (index->size - 1);
    for (; index->slot[at]; at = (at + 1) & (index->size - 1)) {
        const struct set *s = det_set_at(sets, index->slot[at] - 1);
        if (s->hash == hash && s->n == l->n && s->level == level && has_members(d, s, l, marked))
            return index->slot[at] - 1;
    }
    struct set new = {.at = d->members.n, .n = l->n, .hash = hash, .level = level};
    for (uint32_t i = 0; i < l->n; i++)
        det_push_number(d, &d->members, v[i]);
    void *element = det_push(d, sets);
    if (!element || d->c->failed) return UINT32_MAX;
    memset(element, 0, sets->size);
    memcpy(element, &new, sizeof(new));
    index->slot[at] = sets->n;
    *made = true;
    return sets->n - 1;
}
