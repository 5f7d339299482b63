/* SPDX-License-Identifier: Apache-2.0 */
/* GPU checks: the kernels' self-test before they are used, and a measurement of memory bandwidth
 * from time to time, because the system may have moved (spilled) parts of GPU memory to host
 * memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/open/open_backend.h"
#include "base/clock.h"
#include "engine/load/load.h"

/* ---- notices ---- */

static void gpu_health_notify(const ey_engine_options *o, const char *text)
{
    if (o->notice) o->notice(o->notice_user, text);
}

/* ---- kernels ---- */

bool engine_selftest_kernels(struct engine_devices *devices, const ey_engine_options *o, ey_err *e)
{
    struct selftest_report report;
    char text[256];
    if (!devices->be->ops->device) return true;
    if (o->progress) o->progress(o->progress_user, EY_PHASE_CHECKING_GPU, 0, 0);
    if (!backend_selftest(devices->be, devices->pool, false, &report, e)) return false;
    for (int i = 0; i < report.n; i++) {
        const struct selftest_result *v = &report.kernel[i];
        if (!v->failed) continue;
        snprintf(text, sizeof(text),
                 "kernel %s computes wrongly on this GPU and is not used; %s replaces it: "
                 "answers stay correct, but are slower. Please report it",
                 v->name, v->fallback);
        gpu_health_notify(o, text);
    }
    return true;
}

/* ---- memory ---- */

enum {
    HEALTH_SLICE_BYTES = 64 << 20,
    HEALTH_MAX_SLICES = 4096,
    HEALTH_SLOW_FACTOR = 5,
    HEALTH_RETRIES = 3,
    HEALTH_MIN_BYTES = 64 << 20
};
#define GPU_WAKE_SECONDS 0.5 /* an idle GPU reads slowly until its clocks ramp up */

/* The engine's GPU memory in equal slices, with the read rate of each. */
struct memory_slices {
    size_t bytes, slice_bytes;
    int n;
    double rate[HEALTH_MAX_SLICES], sorted[HEALTH_MAX_SLICES];
};

static bool measure_slice(struct engine_devices *devices, struct memory_slices *s, int i, ey_err *e)
{
    size_t first = (size_t)i * s->slice_bytes,
           n = i == s->n - 1 ? s->bytes - first : s->slice_bytes;
    double seconds = 0;
    pthread_mutex_lock(&devices->lock); /* only for this slice, so that steps run between slices */
    devices->be->ops->device->attach(devices->be);
    bool ok = devices->be->ops->device->time_read(devices->be, first, n, &seconds, e);
    pthread_mutex_unlock(&devices->lock);
    if (ok && (double)n / seconds > s->rate[i]) s->rate[i] = (double)n / seconds;
    return ok;
}

static int compare_rates(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_rate(struct memory_slices *s)
{
    memcpy(s->sorted, s->rate, (size_t)s->n * sizeof(s->rate[0]));
    qsort(s->sorted, (size_t)s->n, sizeof(s->sorted[0]), compare_rates);
    return s->sorted[s->n / 2];
}

/* Returns the read rate that a slice in device memory should reach: the median. If most slices have
 * spilled, the median is far too low; then returns the rate that was measured at start, or the
 * rated one. Returns 0 if the memory is so small that it is read too fast to judge. */
static double expected_rate(const struct memory_slices *s, double median, double at_start,
                            double rated)
{
    double expected = median;
    if (s->bytes < HEALTH_MIN_BYTES) return 0;
    if (expected < at_start / HEALTH_SLOW_FACTOR) expected = at_start;
    if (expected < rated / HEALTH_SLOW_FACTOR) expected = rated;
    return expected;
}

/* Measures all slices, and slow ones again, since another process may have used the GPU. */
static bool measure_slices(struct engine_devices *devices, struct memory_slices *s, double at_start,
                           double rated, ey_err *e)
{
    double start = seconds_now();
    int slow = 1;
    for (int i = 0; i < s->n; i++)
        if (!measure_slice(devices, s, i, e)) return false;
    for (int round = 0;
         slow && (round < HEALTH_RETRIES || seconds_now() - start < GPU_WAKE_SECONDS); round++) {
        double expected = expected_rate(s, median_rate(s), at_start, rated);
        slow = 0;
        for (int i = 0; i < s->n; i++)
            if (s->rate[i] * HEALTH_SLOW_FACTOR < expected) {
                slow++;
                if (!measure_slice(devices, s, i, e)) return false;
            }
        if (slow) usleep(2000);
    }
    return true;
}

static struct memory_slices *cut_memory_slices(const struct engine_devices *devices, ey_err *e)
{
    struct memory_slices *s = calloc(1, sizeof(*s));
    if (!s) {
        ey_fail_memory(e, "measuring the GPU's memory", sizeof(*s));
        return NULL;
    }
    s->bytes = devices->be->ops->device->arena_bytes(devices->be);
    size_t n = (s->bytes + HEALTH_SLICE_BYTES - 1) / HEALTH_SLICE_BYTES;
    s->n = n < 1 ? 1 : n > HEALTH_MAX_SLICES ? HEALTH_MAX_SLICES : (int)n;
    s->slice_bytes = s->bytes / (size_t)s->n / 16 * 16;
    return s;
}

static ey_gpu_memory gpu_memory_report(const struct plan *plan, struct memory_slices *s,
                                       const struct gpu_info *gpu, double at_start)
{
    double median = median_rate(s), expected = expected_rate(s, median, at_start, gpu->rated_reads),
           slow_seconds = 0;
    ey_gpu_memory m = {.known = true,
                       .planned_bytes = plan->allocated,
                       .budget_bytes = plan->budget.bytes,
                       .total_bytes = gpu->total,
                       .free_bytes = gpu->free,
                       .allocated_bytes = s->bytes,
                       .bytes_per_second = median,
                       .rated_bytes_per_second = gpu->rated_reads,
                       .usual_bytes_per_second = expected};
    for (int i = 0; i < s->n; i++)
        if (s->rate[i] * HEALTH_SLOW_FACTOR < expected) {
            m.spilled_bytes += s->slice_bytes;
            slow_seconds += (double)s->slice_bytes / s->rate[i];
        }
    m.spilled = m.spilled_bytes > 0;
    if (m.spilled) m.spilled_bytes_per_second = (double)m.spilled_bytes / slow_seconds;
    return m;
}

static bool query_gpu_now(struct engine_devices *devices, struct gpu_info *out, ey_err *e)
{
    pthread_mutex_lock(&devices->lock);
    devices->be->ops->device->attach(devices->be);
    bool ok = devices->be->ops->device->info(devices->be, out, e);
    pthread_mutex_unlock(&devices->lock);
    return ok;
}

bool ey_probe_gpu_memory(ey_engine *engine, ey_gpu_memory *out, ey_err *e)
{
    struct gpu_info gpu;
    *out = (ey_gpu_memory){0};
    if (!engine->devices.be->ops->device) return true;
    struct memory_slices *s = cut_memory_slices(&engine->devices, e);
    double at_start = ey_last_gpu_memory(engine).start_bytes_per_second;
    bool ok = s && query_gpu_now(&engine->devices, &gpu, e) &&
              measure_slices(&engine->devices, s, at_start, gpu.rated_reads, e);
    if (ok) {
        *out = gpu_memory_report(&engine->buffers.plan, s, &gpu, at_start);
        out->start_bytes_per_second = at_start > 0 ? at_start : out->bytes_per_second;
        pthread_mutex_lock(&engine->scheduler.lock);
        engine->devices.gpu_memory = *out;
        engine->devices.gpu_memory_time = seconds_now();
        pthread_mutex_unlock(&engine->scheduler.lock);
    }
    free(s);
    return ok;
}

ey_gpu_memory ey_last_gpu_memory(ey_engine *engine)
{
    pthread_mutex_lock(&engine->scheduler.lock);
    ey_gpu_memory m = engine->devices.gpu_memory;
    if (m.known) m.age_seconds = seconds_now() - engine->devices.gpu_memory_time;
    pthread_mutex_unlock(&engine->scheduler.lock);
    return m;
}

bool ey_gpu_memory_warning(const ey_gpu_memory *m, char *text, size_t size)
{
    if (!m->spilled) return false;
    snprintf(text, size,
             "THE GPU'S MEMORY HAS SPILLED: %.0f of %.0f MiB are read at %.1f GB/s instead of "
             "%.0f, because the system has moved them to the computer's memory: close other "
             "programs that use the GPU, or let eyelet use less GPU memory "
             "(eyelet doctor; --gpu-memory)",
             (double)m->spilled_bytes / (1 << 20), (double)m->allocated_bytes / (1 << 20),
             m->spilled_bytes_per_second / 1e9, m->usual_bytes_per_second / 1e9);
    return true;
}

bool engine_probe_gpu(ey_engine *engine, const ey_engine_options *o, ey_err *e)
{
    ey_gpu_memory memory;
    char text[400];
    if (!ey_probe_gpu_memory(engine, &memory, e)) return false;
    if (ey_gpu_memory_warning(&memory, text, sizeof(text))) gpu_health_notify(o, text);
    return true;
}
