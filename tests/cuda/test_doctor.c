/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor and the check for spilled GPU memory, with a fake GPU and a fake management library.
 */
#include <math.h>
#include <unistd.h>

#include "backend/cuda/nvml.h"
#include "cuda/fake_driver.h"
#include "engine/engine_fixture.h"

enum { MIB = 1 << 20 };

/* ---- NVIDIA's management library ---- */

static bool nvml_there;
static struct nvml_process computing[2], drawing[2];

static int fake_shutdown(void)
{
    return 0;
}

static int fake_driver_version(char *text, unsigned size)
{
    snprintf(text, size, "580.65");
    return 0;
}

static int fake_by_bus(const char *bus, nvmlDevice_t *device)
{
    *device = NULL;
    return strcmp(bus, "0000:01:00.0") == 0 ? 0 : 1;
}

static int fake_list(const struct nvml_process from[2], unsigned *n, struct nvml_process *list)
{
    memcpy(list, from, 2 * sizeof(*list));
    *n = 2;
    return 0;
}

static int fake_compute(nvmlDevice_t device, unsigned *n, struct nvml_process *list)
{
    (void)device;
    return fake_list(computing, n, list);
}

static int fake_graphics(nvmlDevice_t device, unsigned *n, struct nvml_process *list)
{
    (void)device;
    return fake_list(drawing, n, list);
}

/* Replaces opening libnvidia-ml.so.1. */
bool nvml_open(struct nvml *n)
{
    *n = (struct nvml){fake_shutdown, fake_shutdown, fake_driver_version, fake_by_bus, fake_compute,
                       fake_graphics, NULL};
    return nvml_there;
}

void nvml_close(struct nvml *n)
{
    *n = (struct nvml){0};
}

/* ---- the doctor ---- */

static ey_diagnosis d;

static const ey_finding *finding(const char *name)
{
    for (size_t i = 0; i < d.n; i++)
        if (strcmp(d.findings[i].name, name) == 0) return &d.findings[i];
    return NULL;
}

static void assert_found(const char *name, ey_finding_level level, const char *words)
{
    const ey_finding *f = finding(name);
    if (!f) fail_msg("no finding named %s", name);
    if (f->level != level || !strstr(f->text, words))
        fail_msg("%s: level %d, %s", name, (int)f->level, f->text);
}

static void assert_nothing_left(void)
{
    struct fake_counts n = fake_driver_counts();
    assert_int_equal(n.device_allocations + n.host_allocations + n.pinned_ranges + n.contexts +
                         n.modules + n.streams + n.events + n.graphs,
                     0);
}

static ey_engine_options options_for(const char *device)
{
    ey_engine_options o = ey_engine_defaults();
    o.device = device;
    return o;
}

static void a_gpu_that_others_use(void **state)
{
    (void)state;
    ey_engine_options o = options_for("auto");
    nvml_there = true;
    computing[0] = (struct nvml_process){.pid = (unsigned)getppid(), .bytes = 200ull * MIB};
    computing[1] = (struct nvml_process){.pid = (unsigned)getpid(), .bytes = 120ull * MIB};
    drawing[0] = (struct nvml_process){.pid = (unsigned)getppid(), .bytes = 751ull * MIB};
    drawing[1] = (struct nvml_process){.pid = 1, .bytes = NVML_NOT_KNOWN};
    ey_diagnose(&d, &o, false);
    assert_true(d.usable);
    assert_found("gpu", EY_FINDING_GOOD, "NVIDIA GeForce RTX 5060, sm_120, 30 SMs");
    assert_found("driver", EY_FINDING_GOOD, "580.65");
    assert_found("gpu_memory", EY_FINDING_GOOD, "7000 of 8151 MiB");
    assert_found("gpu_process", EY_FINDING_NOTE,
                 "751 MiB held by "); /* listed once, though it also computes */
    assert_non_null(strstr(finding("gpu_process")->remedy, "close it"));
    assert_found("gpu_memory_system", EY_FINDING_NOTE, "400 MiB are held by the system");
    assert_found("gpu_bandwidth", EY_FINDING_GOOD, "% of its rated bandwidth");
    assert_found("kernels", EY_FINDING_GOOD, "passed their self-test on a GPU like this one");
    assert_null(finding("gpu_memory_spill"));
    assert_found("processor", EY_FINDING_GOOD, "kernels for ");
    assert_non_null(finding("memory"));
    assert_nothing_left();
}

static void without_a_management_library(void **state)
{
    (void)state;
    ey_engine_options o = options_for("cuda");
    nvml_there = false;
    ey_diagnose(&d, &o, false);
    assert_true(d.usable);
    assert_found("driver", EY_FINDING_NOTE, "cannot be listed");
    assert_found("gpu_memory_system", EY_FINDING_NOTE, "1151 MiB are held");
    assert_nothing_left();
}

static void a_gpu_without_room(void **state)
{
    (void)state;
    struct fake_gpu gpu = fake_small_gpu;
    ey_engine_options o = options_for("cuda");
    gpu.used_by_others = gpu.total - ((size_t)1200 << 20);
    fake_open_gpu(&gpu);
    ey_diagnose(&d, &o, false);
    assert_false(d.usable);
    assert_found("gpu_memory", EY_FINDING_BAD, "1200 of 8151 MiB");
    o.device = "auto"; /* the CPU is still usable */
    ey_diagnose(&d, &o, false);
    assert_true(d.usable);
    fake_open_gpu(&fake_small_gpu);
}

static void without_a_driver(void **state)
{
    (void)state;
    ey_engine_options o = options_for("auto");
    fake_open_gpu(NULL);
    ey_diagnose(&d, &o, true);
    assert_true(d.usable);
    assert_found("gpu", EY_FINDING_NOTE, "no NVIDIA driver");
    o.device = "cuda";
    ey_diagnose(&d, &o, true);
    assert_false(d.usable);
    o.device = "cpu";
    ey_diagnose(&d, &o, true);
    assert_true(d.usable);
    assert_null(finding("gpu"));
    fake_open_gpu(&fake_small_gpu);
}

static void missing_models_are_reported(void **state)
{
    (void)state;
    ey_engine_options o = options_for("cpu");
    o.model = "/nowhere/at/all";
    ey_diagnose(&d, &o, false);
    assert_false(d.usable);
    assert_found("model", EY_FINDING_BAD, "/nowhere/at/all");
}

/* ---- spilled memory ---- */

static char noticed[400];

static void note(void *user, const char *text)
{
    (void)user;
    snprintf(noticed, sizeof(noticed), "%s", text);
}

static ey_engine *opened(void)
{
    ey_engine_options o = options_for("cuda");
    o.max_model_len = 512;
    o.kv_tokens = 1 << 16;
    o.notice = note; /* a pool of some hundred MiB, large enough to measure */
    noticed[0] = 0;
    return engine_open_with("tiny-ragged-fp8", o);
}

static void spilled_memory_is_seen(void **state)
{
    ey_engine *engine = opened();
    ey_gpu_memory m = ey_last_gpu_memory(engine);
    ey_err e;
    char text[400];
    (void)state;
    assert_true(m.known && !m.spilled && m.allocated_bytes == engine->buffers.plan.arena_bytes);
    assert_true(m.planned_bytes == engine->buffers.plan.allocated &&
                m.total_bytes == fake_small_gpu.total);
    assert_true(m.bytes_per_second > 0.5 * FAKE_READ_RATE &&
                m.bytes_per_second < 1.1 * FAKE_READ_RATE);
    assert_false(ey_gpu_memory_warning(&m, text, sizeof(text)));
    assert_string_equal(noticed, "");
    struct fake_counts before = fake_driver_counts();

    fake_driver_spill(m.allocated_bytes / 2, m.allocated_bytes / 4);
    assert_true(ey_probe_gpu_memory(engine, &m, &e));
    assert_true(m.spilled && m.spilled_bytes >= m.allocated_bytes / 8 &&
                m.spilled_bytes <= m.allocated_bytes / 2 + (64 << 20));
    assert_true(ey_gpu_memory_warning(&m, text, sizeof(text)));
    assert_non_null(strstr(text, "SPILLED"));
    assert_true(ey_last_gpu_memory(engine).spilled);

    fake_driver_spill(0, m.allocated_bytes); /* all of it: no fast part is left for comparison */
    assert_true(ey_probe_gpu_memory(engine, &m, &e));
    assert_true(m.spilled && m.spilled_bytes + 16 * 64 >= m.allocated_bytes);

    fake_driver_spill(0, 0);
    assert_true(ey_probe_gpu_memory(engine, &m, &e));
    assert_false(m.spilled);
    assert_int_equal(fake_driver_counts().calls_that_allocate, before.calls_that_allocate);
    ey_engine_close(&engine);
    assert_nothing_left();
}

static void cpus_have_no_gpu_memory(void **state)
{
    (void)state;
    ey_engine *engine = engine_open("tiny-ragged-fp8", "cpu", 1, 512);
    ey_gpu_memory m;
    ey_err e;
    assert_true(ey_probe_gpu_memory(engine, &m, &e));
    assert_false(m.known || ey_last_gpu_memory(engine).known);
    ey_engine_close(&engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gpu_that_others_use),
        cmocka_unit_test(without_a_management_library),
        cmocka_unit_test(a_gpu_without_room),
        cmocka_unit_test(without_a_driver),
        cmocka_unit_test(missing_models_are_reported),
        cmocka_unit_test(spilled_memory_is_seen),
        cmocka_unit_test(cpus_have_no_gpu_memory),
    };
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
