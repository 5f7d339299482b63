/* SPDX-License-Identifier: Apache-2.0 */
/* Several models on one device: who stays, who takes turns, and what each may have. */
#include "plan/sizes.h"

enum {
    LEAST_TOGETHER_LEN = 4096, /* tokens: rather than a shorter context a model takes turns, unless
                                  it was asked for */
    STEP = 1 << 20,            /* bytes */
    GRAIN = 2 << 20,           /* what a driver may round an arena up by */
};

/* A model's share while they are divided; both without the context, which all have together. */
struct need {
    uint64_t least, most;
};

/* The question of one model, within `bytes` of the card. */
static bool plan_within(struct plan *p, const struct plan_member *m, const struct backend *be,
                        const struct device_facts *facts, uint64_t bytes)
{
    struct plan_limits limits = *m->limits;
    limits.utilization = 0;
    limits.device_bytes = bytes;
    return plan_make(p, m->model, be, facts, &limits, NULL) && p->fits;
}

static bool is_good_enough(const struct plan *p, const struct plan_member *m)
{
    int least = m->plan.max_model_len < LEAST_TOGETHER_LEN ? m->plan.max_model_len
                                                           : LEAST_TOGETHER_LEN;
    return p->max_model_len >= least;
}

/* What a model takes with all levers pulled, and what it would like to take. */
static struct need need_of(const struct plan_member *m, const struct backend *be,
                           const struct device_facts *facts)
{
    struct plan p;
    uint64_t too_little = 0, enough = (m->plan.allocated + STEP - 1) / STEP;
    while (enough - too_little > 1) {
        uint64_t middle = too_little + (enough - too_little) / 2;
        if (plan_within(&p, m, be, facts, middle * STEP) && is_good_enough(&p, m))
            enough = middle;
        else
            too_little = middle;
    }
    uint64_t least = enough * STEP < m->plan.allocated ? enough * STEP : m->plan.allocated;
    return (struct need){least - facts->context + GRAIN,
                         m->plan.allocated - facts->context + GRAIN};
}

/* Those that stay have their least for certain, and of the rest a share by what more each would
 * take. */
static void divide(struct plan_member *member, size_t n, const struct need *need, uint64_t room,
                   const struct backend *be, const struct device_facts *facts)
{
    uint64_t least = 0, more = 0;
    for (size_t i = 0; i < n; i++)
        if (member[i].stays) {
            least += need[i].least;
            more += need[i].most - need[i].least;
        }
    if (least + more <= room || least >= room) return;
    for (size_t i = 0; i < n; i++) {
        struct plan p;
        const uint64_t wish = need[i].most - need[i].least;
        if (!member[i].stays) continue;
        const double part = (double)(room - least) * ((double)wish / (double)more);
        const uint64_t share = facts->context + need[i].least - GRAIN +
                               (uint64_t)part / STEP * STEP;
        if (!plan_within(&p, &member[i], be, facts, share)) continue;
        p.budget = member[i].plan.budget; /* of all together */
        member[i].plan = p;
    }
}

static void share_card(struct plan_member *member, size_t n, const struct backend *be,
                       const struct device_facts *facts)
{
    struct need need[PLAN_MEMBERS];
    const uint64_t budget = member[0].plan.budget.bytes,
                   room = budget > facts->context ? budget - facts->context : 0;
    uint64_t taken = 0;
    for (size_t i = 0; i < n; i++) {
        need[i] = need_of(&member[i], be, facts);
        member[i].stays = member[i].plan.fits && (!i || taken + need[i].least <= room);
        if (member[i].stays) taken += need[i].least;
    }
    divide(member, n, need, room, be, facts);
}

/* Weights that are read from the file stay in memory only where there is room for them. */
static uint64_t host_need(const struct plan_member *m)
{
    return m->plan.allocated + m->plan.bytes[PLAN_WEIGHTS];
}

static void share_host(struct plan_member *member, size_t n)
{
    uint64_t taken = 0;
    for (size_t i = 0; i < n; i++) {
        /* alone a model may be larger: it is read from the disk again and again */
        member[i].stays = member[i].plan.fits &&
                          (!i || taken + host_need(&member[i]) <= member[i].plan.budget.bytes);
        if (member[i].stays) taken += host_need(&member[i]);
    }
}

uint64_t plan_member_bytes(const struct plan_member *m)
{
    const struct device_facts *facts = m->plan.facts;
    return facts->card ? m->plan.allocated - facts->context + GRAIN : host_need(m);
}

bool plan_together(struct plan_member *member, size_t n, const struct backend *be,
                   const struct device_facts *facts, ey_err *e)
{
    for (size_t i = 0; i < n; i++) {
        struct plan_member *m = &member[i];
        if (!plan_make(&m->plan, m->model, be, facts, m->limits, e))
            return n > 1 ? ey_fail_within(e, "%s", m->name) : false;
    }
    if (n > 1 && facts->card)
        share_card(member, n, be, facts);
    else if (n > 1)
        share_host(member, n);
    else
        member[0].stays = true;
    return true;
}
