/* The server's keeper with an engine on the card that is not there: what it tells of the card's memory, and that a model that nobody asks for leaves nothing
 * behind on the card. */
#include <unistd.h>

#include "base/clock.h"
#include "model/ckpt_edit.h"
#include "cuda/fake_driver.h"
#include "engine/engine_fixture.h"
#include "server/metrics.h"

static struct server_options options(const char *model)
{
    struct server_options o = server_defaults();
    o.models[0].path = model, o.n_models = 1, o.engine.device = "cuda", o.engine.max_model_len = 512, o.engine.kv_tokens = 1 << 16, o.engine.threads = 1;
    o.idle_unload_seconds = 1;
    return o;
}

static bool metrics_have(struct keeper *k, ey_budget *budget, const char *text)
{
    struct buf out = buf_with_max(1 << 20);
    struct metrics *m;
    ey_err e;
    assert_true(metrics_open(&m, 1, &e));
    const struct metrics_facts facts = {{"tiny"}, k, budget, 0};
    assert_true(metrics_write(m, &facts, &out));
    metrics_close(&m);
    bool found = out.data && strstr(out.data, text);
    buf_free(&out);
    return found;
}

static void nothing_stays_on_the_card(void **state)
{
    struct keeper *k;
    ey_err e;
    bool waited;
    (void)state;
    struct server_options o = options(ckpt_make(fixture_dir(), "tiny-ragged-fp8"));
    ey_budget *budget = ey_budget_create(1 << 20);
    if (!keeper_open(&k, &o, budget, &e)) fail_msg("%s", e.text);
    for (int load = 1; load <= 2; load++) {
        if (!keeper_borrow(k, 0, NULL, NULL, &waited, &e)) fail_msg("%s", e.text);
        struct keeper_report r = keeper_state(k, 0);
        assert_int_equal(r.loads, load);
        assert_true(r.memory.known && !r.memory.spilled && r.memory.planned_bytes == r.facts.total_bytes);
        assert_true(metrics_have(k, budget, "\neyelet_gpu_memory_spilled{") && metrics_have(k, budget, "\neyelet_gpu_memory_planned_bytes{"));
        assert_true(fake_driver_counts().device_bytes > 0);
        keeper_return(k, 0);
        double until = seconds_now() + 30;
        while (keeper_state(k, 0).unloads < load && seconds_now() < until) usleep(10000);
        usleep(300000); /* it is told before it is done */
        struct fake_counts n = fake_driver_counts();
        assert_int_equal(n.device_bytes, 0);
        assert_int_equal(n.device_allocations + n.host_allocations + n.contexts + n.modules + n.streams + n.events + n.graphs, 0);
        assert_false(metrics_have(k, budget, "eyelet_gpu_memory"));
    }
    keeper_close(&k);
    ey_budget_free(&budget);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_stays_on_the_card)};
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
