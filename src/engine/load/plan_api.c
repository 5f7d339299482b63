/* SPDX-License-Identifier: Apache-2.0 */
/* Makes plans without an engine, for one model or for several that share a device. */
#include <stdlib.h>
#include <string.h>

#include "engine/load/load.h"
#include "engine/load/make_plan.h"

static void export_suggestions(ey_plan *out, const ey_engine *engine,
                               const struct plan_limits *limits)
{
    struct plan_suggestion suggestion[PLAN_SUGGESTIONS + 1];
    out->n_suggestions = (size_t)plan_find_suggestions(suggestion, engine, limits);
    for (size_t i = 0; i < out->n_suggestions; i++) {
        memcpy(out->suggestions[i].options, suggestion[i].options, sizeof(suggestion[i].options));
        out->suggestions[i].total_bytes = suggestion[i].total;
        out->suggestions[i].fits = suggestion[i].fits;
    }
}

_Static_assert((int)PLAN_MEMBERS == (int)EY_MAX_MODELS, "models of one plan");
_Static_assert((int)PLAN_ROWS <= (int)EY_PLAN_ITEMS &&
                   (int)PLAN_SUGGESTIONS < (int)EY_PLAN_SUGGESTIONS &&
                   (int)PLAN_CHOICES <= (int)EY_PLAN_CHOICES,
               "ey_plan holds any plan");
_Static_assert(sizeof(((struct plan_suggestion *)0)->options) ==
                   sizeof(((ey_plan *)0)->suggestions[0].options),
               "options of a suggestion");
_Static_assert(PLAN_CHOICE_BYTES == sizeof(((ey_plan *)0)->choices[0]), "text of a choice");

static bool plan_open_device(struct engine_devices *devices, const ey_engine_options *o, ey_err *e)
{
    return o->vram ? plan_open_simulated_gpu(devices, o, e) : engine_open_backend(devices, o, e);
}

/* Engines that have only their checkpoint and model open. All use the first one's device. */
struct plan_members_open {
    ey_engine_options options[EY_MAX_MODELS];
    ey_engine *engine[EY_MAX_MODELS];
    struct plan_limits limits[EY_MAX_MODELS];
    struct plan_member member[EY_MAX_MODELS];
    size_t n;
};

static bool plan_open_member(struct plan_members_open *all, const ey_engine_options *o, ey_err *e)
{
    const size_t i = all->n;
    ey_engine *engine = all->engine[i] = engine_new(e), *first = all->engine[0];
    all->n += engine != NULL;
    if (!engine || !plan_read_limits(&all->limits[i], o, e) ||
        !engine_open_headers(&engine->devices, o, e))
        return false;
    if (!i &&
        (!plan_open_device(&engine->devices, o, e) || !plan_query_device(&engine->devices, e)))
        return false;
    if (!i) plan_measure_cpu_bandwidth(&engine->devices, o);
    engine->devices.be = first->devices.be;
    engine->devices.pool = first->devices.pool;
    engine->devices.device_info = first->devices.device_info;
    if (!plan_quantize_on_load(&engine->devices, o, e) ||
        !plan_choose_prefill_math(&all->limits[i], &engine->devices, o, e))
        return false;
    all->member[i] = (struct plan_member){
        .name = o->model, .model = &engine->devices.model, .limits = &all->limits[i]};
    return true;
}

static void plan_close_members(struct plan_members_open *all)
{
    for (size_t i = all->n; i-- > 0;) {
        if (i) { /* borrowed from the first one */
            all->engine[i]->devices.be = NULL;
            all->engine[i]->devices.pool = NULL;
        }
        ey_engine_close(&all->engine[i]);
    }
}

static void export_member(ey_plan *out, struct plan_members_open *all, size_t i)
{
    ey_engine *engine = all->engine[i];
    engine->buffers.plan = all->member[i].plan;
    engine->buffers.n_plan_items = plan_items(&engine->buffers.plan, engine->buffers.plan_item);
    plan_export(out, engine);
    out->shared_bytes = plan_member_bytes(&all->member[i]);
    out->resident = all->member[i].resident;
    if (!out->fits) export_suggestions(out, engine, &all->limits[i]);
}

static bool plan_members(struct plan_members_open *all, ey_plan *plans, ey_multi_model_plan *out,
                         ey_err *e)
{
    const ey_engine *first = all->engine[0];
    if (!plan_multi_model(all->member, all->n, first->devices.be, &first->devices.device_info, e))
        return false;
    *out = (ey_multi_model_plan){.capacity_bytes = all->member[0].plan.budget.bytes,
                                 .all_resident = true};
    for (size_t i = 0; i < all->n; i++) {
        export_member(&plans[i], all, i);
        out->all_resident &= plans[i].resident;
        if (plans[i].resident) out->resident_bytes += plans[i].shared_bytes;
    }
    out->capacity_bytes -= first->devices.device_info.context < out->capacity_bytes
                               ? first->devices.device_info.context
                               : out->capacity_bytes;
    return true;
}

/* Returns options[i] of the caller's array, whose structs may have another size than ours. */
static const ey_engine_options *options_at(const ey_engine_options *options, size_t i)
{
    return (const ey_engine_options *)(const void *)((const char *)options + i * options->size);
}

bool ey_multi_model_plan_make(const ey_engine_options *options, size_t n, ey_plan *plans,
                              ey_multi_model_plan *out, ey_err *e)
{
    if (n < 1 || n > EY_MAX_MODELS)
        return ey_fail(e, EY_BAD_REQUEST, "%zu models; a plan takes 1 to %d", n, EY_MAX_MODELS);
    struct plan_members_open *all = calloc(1, sizeof(*all));
    bool ok = all || ey_fail_memory(e, "a plan", sizeof(*all));
    memset(plans, 0, n * sizeof(*plans));
    for (size_t i = 0; ok && i < n; i++)
        ok = engine_options_read(&all->options[i], options_at(options, i), e) &&
             plan_open_member(all, &all->options[i], e);
    ok = ok && plan_members(all, plans, out, e);
    if (all) plan_close_members(all);
    free(all);
    return ok;
}

bool ey_plan_make(const ey_engine_options *options, ey_plan *out, ey_err *e)
{
    ey_multi_model_plan device;
    return ey_multi_model_plan_make(options, 1, out, &device, e);
}
