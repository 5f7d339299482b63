/* SPDX-License-Identifier: Apache-2.0 */
/* The fake driver: delayed work, counters, and refused calls. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "kernels/cuda/cuda_fatbins.h"
#include "cuda/fake_driver.h"
#include "cuda/primitives.h"

enum { N = 64 };

struct opened_gpu {
    struct cuda_driver d;
    CUcontext context;
    CUstream stream;
    CUmodule module;
    CUdeviceptr memory;
    uint32_t *pinned;
};

static struct opened_gpu opened(void)
{
    struct opened_gpu c;
    fake_driver_fill(&c.d, &fake_small_gpu);
    assert_int_equal(c.d.init(0), 0);
    assert_int_equal(c.d.context_retain(&c.context, 0), 0);
    assert_int_equal(c.d.context_current(c.context), 0);
    assert_int_equal(c.d.stream_create(&c.stream, CU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(c.d.module_load(&c.module, cuda_fatbins[0].data), 0);
    assert_int_equal(c.d.memory_alloc(&c.memory, 2 * N * sizeof(uint32_t)), 0);
    void *pinned;
    assert_int_equal(c.d.host_alloc(&pinned, N * sizeof(uint32_t), 0), 0);
    c.pinned = pinned;
    return c;
}

static void closed(struct opened_gpu *c)
{
    c->d.host_free(c->pinned);
    c->d.memory_free(c->memory);
    c->d.module_unload(c->module);
    c->d.stream_destroy(c->stream);
    c->d.context_release(0);
    struct fake_counts n = fake_driver_counts();
    assert_int_equal(n.device_bytes, 0);
    assert_int_equal(n.device_allocations + n.host_allocations + n.pinned_ranges + n.modules +
                         n.streams + n.events + n.graphs,
                     0);
}

static CUfunction function_of(struct opened_gpu *c, const char *wanted)
{
    CUfunction all[64];
    unsigned n = 0;
    assert_int_equal(c->d.module_function_count(&n, c->module), 0);
    assert_in_range(n, 1, 64);
    assert_int_equal(c->d.module_functions(all, n, c->module), 0);
    for (unsigned i = 0; i < n; i++) {
        const char *name;
        assert_int_equal(c->d.function_name(&name, all[i]), 0);
        if (strcmp(name, wanted) == 0) return all[i];
    }
    fail_msg("no kernel %s", wanted);
    return NULL;
}

/* Shuffles the first half of the GPU memory into the second: out[i] = in[i ^ 5]. */
static CUresult launch_shuffle(struct opened_gpu *c, unsigned shared)
{
    uint32_t *memory = (uint32_t *)(uintptr_t)c->memory;
    struct primitive_args a = {memory + N, memory, 0};
    void *args[] = {&a};
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = N,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .sharedMemBytes = shared,
                             .hStream = c->stream};
    return c->d.launch(&config, function_of(c, "test_shuffles"), args, NULL);
}

static void fill(uint32_t *v, uint32_t first)
{
    for (uint32_t i = 0; i < N; i++)
        v[i] = first + i;
}

static void work_runs_when_the_stream_is_awaited(void **state)
{
    (void)state;
    struct opened_gpu c = opened();
    uint32_t ordinary[N], got[N];
    fill(ordinary, 100);
    fill(c.pinned, 200);
    /* pageable memory is read immediately */
    assert_int_equal(c.d.to_device(c.memory, ordinary, sizeof(ordinary), c.stream), 0);
    memset(ordinary, 0, sizeof(ordinary));
    assert_int_equal(launch_shuffle(&c, 0), 0);
    assert_int_equal(c.d.to_host(got, c.memory + N * 4, sizeof(got), c.stream), 0);
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(got[i], 100 + (i ^ 5));
    /* pinned memory is read and written when the stream is synchronized */
    assert_int_equal(c.d.to_device(c.memory, c.pinned, N * 4, c.stream), 0);
    fill(c.pinned, 300);
    assert_int_equal(c.d.stream_sync(c.stream), 0);
    assert_int_equal(c.d.to_host(c.pinned, c.memory, N * 4, c.stream), 0);
    memset(c.pinned, 0, N * 4);
    assert_int_equal(c.pinned[0], 0);
    assert_int_equal(c.d.stream_sync(c.stream), 0);
    assert_int_equal(c.pinned[0], 300);
    closed(&c);
}

static void events_order_streams(void **state)
{
    (void)state;
    struct opened_gpu c = opened();
    CUstream second;
    CUevent filled;
    assert_int_equal(c.d.stream_create(&second, 0), 0);
    assert_int_equal(c.d.event_create(&filled, CU_EVENT_DISABLE_TIMING), 0);
    assert_int_equal(c.d.set_bytes(c.memory, 7, N * 4, c.stream), 0);
    assert_int_equal(c.d.event_record(filled, c.stream), 0);
    assert_int_equal(c.d.set_bytes(c.memory, 9, N * 4, c.stream), 0);
    assert_int_equal(c.d.stream_wait(second, filled, 0), 0);
    assert_int_equal(c.d.to_host(c.pinned, c.memory, N * 4, second), 0);
    assert_int_equal(c.d.stream_sync(second), 0);
    assert_int_equal(c.pinned[0], 0x07070707);
    assert_int_equal(c.d.event_sync(filled), 0);
    assert_int_equal(c.d.event_destroy(filled), 0);
    assert_int_equal(c.d.stream_destroy(second), 0);
    closed(&c);
}

static void graphs_launch(void **state)
{
    (void)state;
    struct opened_gpu c = opened();
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr more;
    assert_int_equal(c.d.capture_begin(c.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), 0);
    assert_int_equal(c.d.to_device(c.memory, c.pinned, N * 4, c.stream), 0);
    assert_int_equal(launch_shuffle(&c, 0), 0);
    assert_int_not_equal(c.d.memory_alloc(&more, 16), 0);
    assert_int_not_equal(c.d.stream_sync(c.stream), 0);
    assert_int_equal(c.d.capture_end(c.stream, &graph), 0);
    assert_int_equal(c.d.graph_instantiate(&exec, graph, 0), 0);
    assert_int_equal(c.d.graph_destroy(graph), 0);
    int before = fake_driver_counts().calls_that_allocate;
    for (uint32_t round = 0; round < 3; round++) {
        fill(c.pinned, 1000 * round);
        uint32_t got[N];
        assert_int_equal(c.d.graph_launch(exec, c.stream), 0);
        assert_int_equal(c.d.to_host(got, c.memory + N * 4, sizeof(got), c.stream), 0);
        for (uint32_t i = 0; i < N; i++)
            assert_int_equal(got[i], 1000 * round + (i ^ 5));
    }
    assert_int_equal(fake_driver_counts().calls_that_allocate, before);
    assert_int_equal(fake_driver_counts().graph_launches, 3);
    assert_int_equal(c.d.graph_exec_destroy(exec), 0);
    closed(&c);
}

static void memory_is_limited_by_the_gpu(void **state)
{
    (void)state;
    struct opened_gpu c = opened();
    size_t free_bytes, total, taken = 2 * N * 4;
    CUdeviceptr p;
    assert_int_equal(c.d.memory_info(&free_bytes, &total), 0);
    assert_int_equal(total, fake_small_gpu.total);
    assert_int_equal(free_bytes,
                     total - fake_small_gpu.used_by_others - fake_small_gpu.context_bytes - taken);
    assert_int_equal(c.d.memory_alloc(&p, free_bytes + 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(c.d.to_device(c.memory + taken - 4, c.pinned, 8, c.stream),
                     CUDA_ERROR_INVALID_VALUE);
    closed(&c);
}

static void invalid_calls_are_refused(void **state)
{
    (void)state;
    struct opened_gpu c = opened();
    CUfunction f = function_of(&c, "test_shuffles");
    assert_int_equal(fake_driver_counts().lazy_functions, 0);
    assert_int_equal(launch_shuffle(&c, 64 * 1024), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(
        c.d.function_attribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 * 1024),
        CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(
        c.d.function_attribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 99 * 1024), 0);
    fill(c.pinned, 0);
    assert_int_equal(c.d.to_device(c.memory, c.pinned, N * 4, c.stream), 0);
    assert_int_equal(launch_shuffle(&c, 64 * 1024), 0);
    assert_int_equal(fake_driver_counts().lazy_functions, 1);
    fake_driver_fail("stream_sync", 2, 700);
    assert_int_equal(c.d.stream_sync(c.stream), 0);
    assert_int_equal(c.d.stream_sync(c.stream), 700);
    assert_int_equal(c.d.stream_sync(c.stream), 0);
    assert_int_equal(c.d.context_current(NULL), 0);
    assert_int_not_equal(c.d.stream_sync(c.stream), 0);
    assert_int_equal(c.d.context_current(c.context), 0);
    closed(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_runs_when_the_stream_is_awaited),
        cmocka_unit_test(events_order_streams),
        cmocka_unit_test(graphs_launch),
        cmocka_unit_test(memory_is_limited_by_the_gpu),
        cmocka_unit_test(invalid_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
