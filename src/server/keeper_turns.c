/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is: which model is loaded next, and which give way to it. */
#include <math.h>

#include "base/clock.h"
#include "server/keeper_internal.h"

bool kept_is_idle(const struct kept *m)
{
    return m->state == KEEPER_READY && !m->borrowed && !m->peeking && !m->owed;
}

struct kept *keeper_next(struct keeper *k)
{
    struct kept *next = NULL;
    for (size_t i = 0; i < k->n; i++) {
        struct kept *m = &k->model[i];
        if (m->state == KEEPER_UNLOADED && m->wanted > 0 && (!next || m->wanted < next->wanted))
            next = m;
    }
    return next;
}

/* What is loaded. */
struct load {
    int n;
    uint64_t bytes;
};

static struct load load_of(const struct keeper *k)
{
    struct load load = {0, 0};
    for (size_t i = 0; i < k->n; i++)
        if (k->model[i].engine) {
            load.n++;
            load.bytes += k->model[i].bytes;
        }
    return load;
}

/* A model that is too large for all of the room is tried alone, so that its engine says why it
 * cannot be. */
static bool fits_beside(const struct keeper *k, struct load load, const struct kept *m)
{
    return !load.n || ((!k->max_loaded || load.n < k->max_loaded) && m->bytes <= k->room &&
                       load.bytes <= k->room - m->bytes);
}

bool keeper_has_room(const struct keeper *k, const struct kept *wanted)
{
    return fits_beside(k, load_of(k), wanted);
}

/* Whether a gives way before b: idle ones first, by when they were last used; of busy ones the one
 * that has been there longest. */
static bool goes_before(const struct kept *a, const struct kept *b)
{
    bool idle = kept_is_idle(a);
    if (idle != kept_is_idle(b)) return idle;
    return idle ? a->used < b->used : a->since < b->since;
}

static struct kept *first_to_go(struct keeper *k, const bool *chosen)
{
    struct kept *first = NULL;
    for (size_t i = 0; i < k->n; i++) {
        struct kept *m = &k->model[i];
        if (m->engine && !chosen[i] && (!first || goes_before(m, first))) first = m;
    }
    return first;
}

static double later_of(double a, double b)
{
    return a > b ? a : b;
}

struct kept *keeper_victim(struct keeper *k, const struct kept *wanted, double *until)
{
    bool chosen[SERVER_MAX_MODELS] = {false};
    struct load load = load_of(k);
    struct kept *m;
    *until = INFINITY;
    while (!fits_beside(k, load, wanted) && (m = first_to_go(k, chosen))) {
        if (kept_is_idle(m)) return m;
        const double turn_ends = later_of(wanted->wanted, m->since) + k->turn_seconds;
        m->shut = turn_ends <= seconds_now();
        if (!m->shut) *until = fmin(*until, turn_ends);
        chosen[m - k->model] = true;
        load.n--;
        load.bytes -= m->bytes;
    }
    return NULL;
}

void keeper_open_doors(struct keeper *k)
{
    for (size_t i = 0; i < k->n; i++)
        k->model[i].shut = false;
}
