/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the next model to load, and the models to evict for it. */
#include <math.h>

#include "base/clock.h"
#include "server/model_manager/model_manager_internal.h"

bool model_slot_is_idle(const struct model_slot *m)
{
    return m->state == MODEL_READY && !m->n_leases && !m->n_peeking && !m->n_pending;
}

struct model_slot *model_manager_next_load(struct model_manager *k)
{
    struct model_slot *next = NULL;
    for (size_t i = 0; i < k->n_models; i++) {
        struct model_slot *m = &k->model[i];
        if (m->state == MODEL_UNLOADED && m->requested_at > 0 &&
            (!next || m->requested_at < next->requested_at))
            next = m;
    }
    return next;
}

/* The loaded models. */
struct loaded_models {
    int n;
    uint64_t bytes;
};

static struct loaded_models loaded_models_of(const struct model_manager *k)
{
    struct loaded_models loaded = {0, 0};
    for (size_t i = 0; i < k->n_models; i++)
        if (k->model[i].engine) {
            loaded.n++;
            loaded.bytes += k->model[i].shared_bytes;
        }
    return loaded;
}

/* A model too large for all of the memory counts as fitting alone, so that its engine reports why
 * it cannot be loaded. */
static bool fits_beside(const struct model_manager *k, struct loaded_models loaded,
                        const struct model_slot *m)
{
    return !loaded.n ||
           ((!k->max_loaded || loaded.n < k->max_loaded) && m->shared_bytes <= k->capacity_bytes &&
            loaded.bytes <= k->capacity_bytes - m->shared_bytes);
}

bool model_manager_fits(const struct model_manager *k, const struct model_slot *requested)
{
    return fits_beside(k, loaded_models_of(k), requested);
}

/* Whether a is evicted before b: first idle models, the least recently used first; then busy
 * models, the one loaded earliest first. */
static bool is_evicted_before(const struct model_slot *a, const struct model_slot *b)
{
    bool idle = model_slot_is_idle(a);
    if (idle != model_slot_is_idle(b)) return idle;
    return idle ? a->last_used < b->last_used : a->loaded_at < b->loaded_at;
}

static struct model_slot *next_victim(struct model_manager *k, const bool *chosen)
{
    struct model_slot *first = NULL;
    for (size_t i = 0; i < k->n_models; i++) {
        struct model_slot *m = &k->model[i];
        if (m->engine && !chosen[i] && (!first || is_evicted_before(m, first))) first = m;
    }
    return first;
}

static double later_of(double a, double b)
{
    return a > b ? a : b;
}

struct model_slot *model_manager_pick_victim(struct model_manager *k,
                                             const struct model_slot *requested, double *until)
{
    bool chosen[SERVER_MAX_MODELS] = {false};
    struct loaded_models loaded = loaded_models_of(k);
    struct model_slot *m;
    *until = INFINITY;
    while (!fits_beside(k, loaded, requested) && (m = next_victim(k, chosen))) {
        if (model_slot_is_idle(m)) return m;
        const double turn_ends = later_of(requested->requested_at, m->loaded_at) + k->turn_seconds;
        m->draining = turn_ends <= seconds_now();
        if (!m->draining) *until = fmin(*until, turn_ends);
        chosen[m - k->model] = true;
        loaded.n--;
        loaded.bytes -= m->shared_bytes;
    }
    return NULL;
}

void model_manager_clear_draining(struct model_manager *k)
{
    for (size_t i = 0; i < k->n_models; i++)
        k->model[i].draining = false;
}
