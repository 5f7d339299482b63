/* SPDX-License-Identifier: Apache-2.0 */
/* The model manager with engines on the fake GPU: its report of GPU memory, and no leaks after an
 * unload. */
#include <unistd.h>

#include "base/clock.h"
#include "models/ckpt_edit.h"
#include "cuda/fake_driver.h"
#include "engine/engine_fixture.h"
#include "server/metrics.h"

enum { PATIENCE = 300 /* seconds */ };

static struct server_options options(const char *model)
{
    struct server_options o = server_defaults();
    o.models[0].path = model;
    o.n_models = 1;
    o.engine.device = "cuda";
    o.engine.max_model_len = 512;
    o.engine.kv_tokens = 1 << 16;
    o.engine.threads = 1;
    o.idle_unload_seconds = 1;
    return o;
}

static bool metrics_have(struct model_manager *k, ey_budget *budget, const char *text)
{
    struct buf out = buf_with_max(1 << 20);
    struct metrics *m;
    ey_err e;
    assert_true(metrics_open(&m, 1, &e));
    const struct metrics_sources facts = {{"tiny"}, k, budget, 0};
    assert_true(metrics_write(m, &facts, &out));
    metrics_close(&m);
    bool found = out.data && strstr(out.data, text);
    buf_free(&out);
    return found;
}

/* Waits until the GPU holds this many bytes, since an unload is reported before it is complete. */
static void await_bytes(size_t bytes)
{
    double until = seconds_now() + PATIENCE;
    while (fake_driver_counts().device_bytes != bytes && seconds_now() < until)
        usleep(10000);
    assert_int_equal(fake_driver_counts().device_bytes, bytes);
}

static void await_empty_gpu(void)
{
    double until = seconds_now() + PATIENCE;
    struct fake_counts n;
    do {
        usleep(10000);
        n = fake_driver_counts();
    } while ((n.device_bytes || n.contexts) && seconds_now() < until);
    assert_int_equal(n.device_bytes, 0);
    assert_int_equal(n.device_allocations + n.host_allocations + n.pinned_ranges + n.contexts +
                         n.modules + n.streams + n.events + n.graphs,
                     0);
}

static void nothing_stays_on_the_gpu(void **state)
{
    struct model_manager *k;
    ey_err e;
    bool waited;
    (void)state;
    struct server_options o = options(ckpt_make(fixture_dir(), "tiny-ragged-fp8"));
    ey_budget *budget = ey_budget_create(1 << 20);
    if (!model_manager_open(&k, &o, budget, &e)) fail_msg("%s", e.text);
    for (int load = 1; load <= 2; load++) {
        if (!model_manager_acquire(k, 0, NULL, NULL, &waited, &e)) fail_msg("%s", e.text);
        struct model_status r = model_manager_status(k, 0);
        assert_int_equal(r.loads, load);
        assert_true(r.memory.known && !r.memory.spilled &&
                    r.memory.planned_bytes == r.info.total_bytes);
        assert_true(metrics_have(k, budget, "\neyelet_gpu_memory_spilled{") &&
                    metrics_have(k, budget, "\neyelet_gpu_memory_planned_bytes{"));
        assert_true(fake_driver_counts().device_bytes > 0);
        model_manager_release(k, 0);
        double until = seconds_now() + PATIENCE;
        while (model_manager_status(k, 0).unloads < load && seconds_now() < until)
            usleep(10000);
        await_empty_gpu(); /* an unload is reported before it is complete */
        assert_false(metrics_have(k, budget, "eyelet_gpu_memory"));
    }
    model_manager_close(&k);
    ey_budget_free(&budget);
}

/* The model's GPU memory without the context. */
static size_t arena_of(struct model_manager *k, size_t model, size_t context)
{
    struct model_status r = model_manager_status(k, model);
    assert_true(r.info.planned);
    return (size_t)r.info.total_bytes - context;
}

static void await_plan(struct model_manager *k)
{
    double until = seconds_now() + PATIENCE;
    while ((!model_manager_status(k, 0).info.planned ||
            model_manager_status(k, 0).state == MODEL_LOADING) &&
           seconds_now() < until)
        usleep(10000);
}

static struct server_options two_models(uint64_t gpu_memory)
{
    struct server_options o = options(ckpt_make(fixture_dir(), "tiny-ragged-fp8"));
    o.models[1].path = ckpt_make(fixture_dir(), "tiny-head72-bf16");
    o.n_models = 2;
    o.models[0].names[0] = "a";
    o.models[1].names[0] = "b";
    o.models[0].n_names = o.models[1].n_names = 1;
    o.idle_unload_seconds = 0;
    o.engine.kv_tokens = 0;
    o.engine.max_model_len = 256;
    o.engine.gpu_memory = gpu_memory;
    return o;
}

enum { CONTEXT = 120 << 20 }; /* on the small GPU with 30 SMs */

static size_t two_arenas(struct model_manager *k)
{
    return arena_of(k, 0, CONTEXT) + arena_of(k, 1, CONTEXT);
}

static struct model_manager *open_two(const struct server_options *o, ey_budget *budget)
{
    struct model_manager *k;
    ey_err e;
    if (!model_manager_open(&k, o, budget, &e)) fail_msg("%s", e.text);
    await_plan(k);
    return k;
}

/* Both are loaded, and GPU memory is the sum of their plans. */
static void two_models_share_the_gpu(void **state)
{
    (void)state;
    struct server_options o = two_models(0);
    ey_budget *budget = ey_budget_create(1 << 20);
    ey_err e;
    bool waited;
    struct model_manager *k = open_two(&o, budget);
    for (size_t m = 0; m < 2; m++)
        assert_non_null(model_manager_acquire(k, m, NULL, NULL, &waited, &e));
    await_bytes(two_arenas(k));
    assert_int_equal(fake_driver_counts().contexts, 2); /* references to the one context */
    for (size_t m = 0; m < 2; m++) {
        assert_true(!model_manager_status(k, m).info.shares_memory &&
                    model_manager_status(k, m).memory.known);
        model_manager_release(k, m);
    }
    model_manager_close(&k);
    assert_int_equal(fake_driver_counts().device_bytes, 0);
    ey_budget_free(&budget);
}

/* The GPU has less memory than both want, but more than both need: both shrink and stay loaded. */
static void two_models_give_way_to_stay(void **state)
{
    (void)state;
    struct server_options o = two_models(0);
    ey_budget *budget = ey_budget_create(1 << 20);
    ey_err e;
    bool waited;
    struct model_manager *k = open_two(&o, budget);
    size_t wished = two_arenas(k);
    model_manager_close(&k);
    o.engine.gpu_memory = CONTEXT + wished * 3 / 5;
    k = open_two(&o, budget);
    for (size_t m = 0; m < 2; m++) {
        if (!model_manager_acquire(k, m, NULL, NULL, &waited, &e)) fail_msg("%s", e.text);
        struct model_status r = model_manager_status(k, m);
        assert_true(!r.info.shares_memory && r.info.budget_bytes == o.engine.gpu_memory &&
                    r.info.n_choices > 0);
    }
    await_bytes(two_arenas(k));
    assert_true(two_arenas(k) + CONTEXT <= o.engine.gpu_memory);
    for (size_t m = 0; m < 2; m++) {
        assert_int_equal(model_manager_status(k, m).unloads, 0);
        model_manager_release(k, m);
    }
    model_manager_close(&k);
    ey_budget_free(&budget);
}

/* Only one fits: taking turns, the GPU holds exactly what the loaded model's plan says, and never
 * more. */
static void two_models_take_turns(void **state)
{
    (void)state;
    struct server_options o = two_models(0);
    ey_budget *budget = ey_budget_create(1 << 20);
    ey_err e;
    bool waited;
    o.engine.kv_tokens = 1 << 16;
    o.engine.max_num_batched_tokens = 64;
    o.engine.lm_head = "bf16";
    o.engine.vision_weights = "resident";
    o.engine.kv_cache_dtype = "bf16";
    struct model_manager *k = open_two(&o, budget);
    size_t a = arena_of(k, 0, CONTEXT), b = arena_of(k, 1, CONTEXT), larger = a > b ? a : b;
    model_manager_close(&k);
    o.engine.gpu_memory = CONTEXT + larger + (4 << 20);
    k = open_two(&o, budget);
    assert_true(!model_manager_status(k, 0).info.shares_memory &&
                model_manager_status(k, 1).info.shares_memory);
    for (int i = 0; i < 4; i++) {
        const size_t m = (size_t)i % 2;
        if (!model_manager_acquire(k, m, NULL, NULL, &waited, &e)) fail_msg("%s", e.text);
        assert_true(waited || !i);
        assert_int_equal(fake_driver_counts().device_bytes, arena_of(k, m, CONTEXT));
        assert_true(model_manager_status(k, 1 - m).state == MODEL_UNLOADED);
        model_manager_release(k, m);
    }
    assert_true(fake_driver_counts().device_peak <= larger);
    model_manager_close(&k);
    await_empty_gpu();
    ey_budget_free(&budget);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_stays_on_the_gpu), cmocka_unit_test(two_models_share_the_gpu),
        cmocka_unit_test(two_models_give_way_to_stay), cmocka_unit_test(two_models_take_turns)};
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
