/* SPDX-License-Identifier: Apache-2.0 */
/* Plans several models on one device: which stay resident, which take turns, and how memory is
 * divided. */
#include "plan/plan_internal.h"

enum {
    MIN_SHARED_LEN = 4096, /* tokens: a model takes turns rather than have a shorter context, unless
                              one was given */
    SHARE_STEP = 1 << 20,  /* bytes */
    ARENA_ROUNDING = 2 << 20, /* a driver may round up an arena's size to a multiple of this */
};

/* The minimum bytes of a model and what it would take alone; both exclude the CUDA context, which
 * all models share. */
struct memory_need {
    uint64_t min, max;
};

/* Plans one model within `bytes` of the GPU's memory. */
static bool plan_member_within(struct plan *p, const struct plan_member *m,
                               const struct backend *be, const struct device_info *device,
                               uint64_t bytes)
{
    struct plan_limits limits = *m->limits;
    limits.utilization = 0;
    limits.device_bytes = bytes;
    return plan_make(p, m->model, be, device, &limits, NULL) && p->fits;
}

static bool context_is_useful(const struct plan *p, const struct plan_member *m)
{
    int min = m->plan.max_model_len < MIN_SHARED_LEN ? m->plan.max_model_len : MIN_SHARED_LEN;
    return p->max_model_len >= min;
}

/* Returns a model's memory with all knobs turned, and what it would take alone. */
static struct memory_need member_need(const struct plan_member *m, const struct backend *be,
                                      const struct device_info *device)
{
    struct plan p;
    uint64_t too_little = 0, enough = (m->plan.allocated + SHARE_STEP - 1) / SHARE_STEP;
    while (enough - too_little > 1) {
        uint64_t middle = too_little + (enough - too_little) / 2;
        if (plan_member_within(&p, m, be, device, middle * SHARE_STEP) && context_is_useful(&p, m))
            enough = middle;
        else
            too_little = middle;
    }
    uint64_t min = enough * SHARE_STEP < m->plan.allocated ? enough * SHARE_STEP
                                                           : m->plan.allocated;
    return (struct memory_need){min - device->context + ARENA_ROUNDING,
                                m->plan.allocated - device->context + ARENA_ROUNDING};
}

/* Gives resident models their minimum, and divides the rest in proportion to max - min. */
static void divide_memory(struct plan_member *member, size_t n, const struct memory_need *need,
                          uint64_t capacity, const struct backend *be,
                          const struct device_info *device)
{
    uint64_t min = 0, extra_sum = 0;
    for (size_t i = 0; i < n; i++)
        if (member[i].resident) {
            min += need[i].min;
            extra_sum += need[i].max - need[i].min;
        }
    if (min + extra_sum <= capacity || min > capacity) return;
    for (size_t i = 0; i < n; i++) {
        struct plan p;
        const uint64_t extra = need[i].max - need[i].min;
        if (!member[i].resident) continue;
        const double part = (double)(capacity - min) * ((double)extra / (double)extra_sum);
        const uint64_t share = device->context + need[i].min - ARENA_ROUNDING +
                               (uint64_t)part / SHARE_STEP * SHARE_STEP;
        if (!plan_member_within(&p, &member[i], be, device, share)) continue;
        p.budget = member[i].plan.budget; /* the budget of all models */
        member[i].plan = p;
    }
}

static void share_gpu(struct plan_member *member, size_t n, const struct backend *be,
                      const struct device_info *device)
{
    struct memory_need need[PLAN_MEMBERS];
    const uint64_t budget = member[0].plan.budget.bytes,
                   capacity = budget > device->context ? budget - device->context : 0;
    uint64_t taken = 0;
    for (size_t i = 0; i < n; i++) {
        need[i] = member_need(&member[i], be, device);
        member[i].resident = member[i].plan.fits && (!i || taken + need[i].min <= capacity);
        if (member[i].resident) taken += need[i].min;
    }
    divide_memory(member, n, need, capacity, be, device);
}

/* Returns a member's host bytes, including mapped weights, which stay in memory only if they
 * fit. */
static uint64_t member_host_bytes(const struct plan_member *m)
{
    return m->plan.allocated + m->plan.bytes[PLAN_WEIGHTS];
}

static void share_host(struct plan_member *member, size_t n)
{
    uint64_t taken = 0;
    for (size_t i = 0; i < n; i++) {
        /* the first may exceed the budget: it is then read from the disk again and again */
        member[i].resident = member[i].plan.fits && (!i || taken + member_host_bytes(&member[i]) <=
                                                               member[i].plan.budget.bytes);
        if (member[i].resident) taken += member_host_bytes(&member[i]);
    }
}

uint64_t plan_member_bytes(const struct plan_member *m)
{
    const struct device_info *device = m->plan.device;
    return device->is_gpu ? m->plan.allocated - device->context + ARENA_ROUNDING
                          : member_host_bytes(m);
}

bool plan_multi_model(struct plan_member *member, size_t n, const struct backend *be,
                      const struct device_info *device, ey_err *e)
{
    for (size_t i = 0; i < n; i++) {
        struct plan_member *m = &member[i];
        if (!plan_make(&m->plan, m->model, be, device, m->limits, e))
            return n > 1 ? ey_fail_within(e, "%s", m->name) : false;
    }
    if (n > 1 && device->is_gpu)
        share_gpu(member, n, be, device);
    else if (n > 1)
        share_host(member, n);
    else
        member[0].resident = true;
    return true;
}
