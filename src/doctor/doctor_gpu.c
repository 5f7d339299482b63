/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the GPU: whether it is usable, which processes hold its memory, its bandwidth, and whether
 * its kernels pass their self-test. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/open/open_backend.h"
#include "backend/cuda/nvml.h"
#include "base/system.h"
#include "doctor/doctor_findings.h"
#include "plan/device_info.h"

#define MIB 1048576.0
enum {
    DOCTOR_SLICE_BYTES = 256 << 20,
    DOCTOR_MAX_SLICES = 4,
    DOCTOR_ROUNDS = 3,
    DOCTOR_SLOW_FACTOR = 5
};
#define MIN_FREE_GPU_BYTES ((uint64_t)2000 << 20) /* no official model fits in less */

/* ---- the GPU ---- */

static void check_driver(ey_diagnosis *out, const struct nvml *nvml, bool has_nvml)
{
    char version[96];
    if (has_nvml && nvml->driver_version(version, sizeof(version)) == 0)
        finding_text(finding_add(out, "driver", EY_FINDING_GOOD), "NVIDIA driver %.90s", version);
    else
        finding_text(
            finding_add(out, "driver", EY_FINDING_NOTE),
            "libnvidia-ml.so.1 is missing or fails: the processes on the GPU cannot be listed");
}

/* ---- its memory ---- */

static void add_gpu_process(ey_diagnosis *out, const struct nvml_process *p)
{
    char name[64];
    ey_finding *f = finding_add(out, "gpu_process", EY_FINDING_NOTE);
    system_process_name(name, sizeof(name), p->pid);
    if (!name[0]) snprintf(name, sizeof(name), "a process whose name cannot be read");
    finding_text(f, "%.0f MiB held by %s (pid %u)", (double)p->bytes / MIB, name, p->pid);
    finding_remedy(
        f, "close it, or let it use the integrated graphics, to free this memory for a model");
    finding_value(f, (double)p->bytes, "bytes");
}

/* Reports the processes that hold GPU memory and returns the sum of their bytes. */
static uint64_t check_gpu_processes(ey_diagnosis *out, const struct nvml *nvml,
                                    const struct gpu_info *gpu)
{
    enum { WORTH_TELLING = 32 << 20, MOST = 12 };
    struct nvml_process list[NVML_PROCESSES];
    int n = nvml_processes(nvml, gpu->bus, list);
    uint64_t sum = 0;
    for (int i = 0; i < n; i++) {
        if (list[i].pid == (unsigned)getpid() || list[i].bytes == NVML_NOT_KNOWN) continue;
        sum += list[i].bytes;
        if (list[i].bytes >= WORTH_TELLING && i < MOST) add_gpu_process(out, &list[i]);
    }
    return sum;
}

/* Reports GPU memory that is used by neither this process nor the listed ones. */
static void check_unlisted_memory(ey_diagnosis *out, const struct gpu_info *gpu, uint64_t accounted)
{
    const uint64_t worth_telling = (uint64_t)64 << 20;
    uint64_t used = gpu->total - gpu->free, ours = gpu_context_bytes(gpu->sm_count) + accounted,
             unlisted = used > ours ? used - ours : 0;
    if (unlisted < worth_telling) return;
    bool wsl2 = system_is_wsl2();
    ey_finding *f = finding_add(out, "gpu_memory_system", EY_FINDING_NOTE);
    finding_text(f, "%.0f MiB are held %s", (double)unlisted / MIB,
                 wsl2 ? "by Windows and its programs, which cannot be listed from WSL2"
                      : "by the system or by processes that cannot be listed");
    if (wsl2)
        finding_remedy(f,
                       "Windows' Task Manager lists them (Details, column Dedicated GPU memory): "
                       "close browsers and games");
    finding_value(f, (double)unlisted, "bytes");
}

static bool check_gpu_memory(ey_diagnosis *out, const struct gpu_info *gpu)
{
    uint64_t left = gpu->free + gpu_context_bytes(gpu->sm_count);
    bool enough = left >= MIN_FREE_GPU_BYTES;
    ey_finding *f = finding_add(out, "gpu_memory", enough ? EY_FINDING_GOOD : EY_FINDING_BAD);
    finding_text(f, "%.0f of %.0f MiB are available", (double)left / MIB, (double)gpu->total / MIB);
    if (!enough)
        finding_remedy(f,
                       "no official model fits into less than %.0f MiB: close programs that use "
                       "the GPU, or use --device cpu",
                       (double)MIN_FREE_GPU_BYTES / MIB);
    finding_value(f, (double)left, "bytes");
    return enough;
}

/* ---- bandwidth ---- */

/* Writes the best read rate of each slice in bytes per second. Reads each several times, because
 * the first reads only raise the GPU's clocks. */
static bool doctor_measure_slices(struct backend *be, double rate[DOCTOR_MAX_SLICES], int n,
                                  ey_err *e)
{
    double seconds;
    memset(rate, 0, DOCTOR_MAX_SLICES * sizeof(*rate));
    for (int round = 0; round < DOCTOR_ROUNDS; round++)
        for (int i = 0; i < n; i++) {
            if (!be->ops->device->time_read(be, (size_t)i * DOCTOR_SLICE_BYTES, DOCTOR_SLICE_BYTES,
                                            &seconds, e))
                return false;
            if (DOCTOR_SLICE_BYTES / seconds > rate[i]) rate[i] = DOCTOR_SLICE_BYTES / seconds;
        }
    return true;
}

static void report_bandwidth(ey_diagnosis *out, const double *rate, int n, double rated)
{
    double best = 0, worst = INFINITY;
    for (int i = 0; i < n; i++) {
        best = fmax(best, rate[i]);
        worst = fmin(worst, rate[i]);
    }
    double expected = best < rated / DOCTOR_SLOW_FACTOR ? rated : best;
    int slow = 0;
    for (int i = 0; i < n; i++)
        slow += rate[i] * DOCTOR_SLOW_FACTOR < expected;
    ey_finding *f = finding_add(out, "gpu_bandwidth", EY_FINDING_GOOD);
    finding_text(f, "the GPU's memory is read at %.0f GB/s%s", best / 1e9,
                 rated > 0 ? "" : "; the driver does not report the rated bandwidth");
    if (rated > 0)
        finding_text(f, "the GPU's memory is read at %.0f GB/s, %.0f %% of its rated bandwidth",
                     best / 1e9, 100 * best / rated);
    finding_value(f, best, "bytes/s");
    if (!slow && best < 0.5 * rated) {
        f->level = EY_FINDING_WARNING;
        finding_remedy(f, "another program uses the GPU, or the machine saves power: plug it in, "
                          "or choose the performance mode");
    }
    if (!slow) return;
    f = finding_add(out, "gpu_memory_spill", EY_FINDING_WARNING);
    finding_text(
        f,
        "%d of the %d MiB measured are read at only %.1f GB/s: the system has moved them to "
        "host memory",
        slow * (DOCTOR_SLICE_BYTES >> 20), n * (DOCTOR_SLICE_BYTES >> 20), worst / 1e9);
    finding_remedy(
        f, "close other programs that use the GPU; under Windows set \"CUDA - Sysmem Fallback "
           "Policy\" to \"Prefer No Sysmem Fallback\"");
}

static void check_gpu_bandwidth(ey_diagnosis *out, struct backend *be, const struct gpu_info *gpu)
{
    double rate[DOCTOR_MAX_SLICES];
    ey_err e;
    uint64_t slices = gpu->free / 2 / DOCTOR_SLICE_BYTES;
    int n = slices < DOCTOR_MAX_SLICES ? (int)slices : DOCTOR_MAX_SLICES;
    if (n < 1) return;
    if (be->ops->memory->open_arena(be, (uint64_t)n * DOCTOR_SLICE_BYTES, &e) &&
        doctor_measure_slices(be, rate, n, &e))
        report_bandwidth(out, rate, n, gpu->rated_reads);
    else
        finding_text(finding_add(out, "gpu_bandwidth", EY_FINDING_BAD), "%.250s", e.text);
}

/* ---- kernels ---- */

static void add_kernel_finding(ey_diagnosis *out, const struct selftest_result *v)
{
    ey_finding *f = finding_add(out, v->name, v->failed ? EY_FINDING_WARNING : EY_FINDING_GOOD);
    if (isfinite(v->error))
        finding_text(f, "error %.1e", (double)v->error);
    else
        finding_text(f, "the result is not finite");
    if (v->failed && v->fallback)
        finding_remedy(f, "not used on this GPU; used instead: %s", v->fallback);
    if (isfinite(v->error)) finding_value(f, (double)v->error, "relative error");
}

static bool check_kernels(ey_diagnosis *out, struct backend *be, struct pool *pool, bool rerun)
{
    struct selftest_report report = {0}; /* stays empty if the reference backend does not open */
    ey_err e;
    bool ok = backend_selftest(be, pool, rerun, &report, &e);
    ey_finding *f = finding_add(out, "kernels",
                                !ok               ? EY_FINDING_BAD
                                : report.n_failed ? EY_FINDING_WARNING
                                                  : EY_FINDING_GOOD);
    int tried = 0;
    for (int i = 0; i < report.n; i++)
        tried += report.kernel[i].was_run;
    if (!ok)
        finding_text(f, "%.250s", e.text);
    else if (report.cached)
        finding_text(
            f,
            "%d of %d kernels passed their self-test on a GPU like this one (--kernels runs "
            "it again)",
            tried - report.n_failed, tried);
    else
        finding_text(f, "%d of %d kernels passed their self-test, in %.2f s",
                     tried - report.n_failed, tried, report.seconds);
    if (report.n_failed) finding_remedy(f, "answers are correct but slower; please report this");
    for (int i = 0; i < report.n; i++)
        if (report.kernel[i].was_run && (rerun || report.kernel[i].failed))
            add_kernel_finding(out, &report.kernel[i]);
    return ok;
}

/* ---- all ---- */

static bool check_gpu(ey_diagnosis *out, struct backend *be, struct pool *pool, bool kernels)
{
    struct gpu_info gpu;
    struct nvml nvml;
    ey_err e;
    bool is_present = nvml_open(&nvml);
    finding_text(finding_add(out, "gpu", EY_FINDING_GOOD), "%s", be->ops->detail(be));
    check_driver(out, &nvml, is_present);
    bool ok = be->ops->device->info(be, &gpu, &e);
    if (ok) {
        ok = check_gpu_memory(out, &gpu);
        check_unlisted_memory(out, &gpu, is_present ? check_gpu_processes(out, &nvml, &gpu) : 0);
        ok &= check_kernels(out, be, pool, kernels);
        check_gpu_bandwidth(out, be, &gpu);
    } else {
        finding_text(finding_add(out, "gpu_memory", EY_FINDING_BAD), "%.250s", e.text);
    }
    nvml_close(&nvml);
    return ok;
}

bool doctor_check_gpu(ey_diagnosis *out, bool kernels)
{
    ey_err e;
    struct pool *pool = NULL;
    struct backend *be = NULL;
    bool is_present = pool_create(&pool, 0, &e) &&
                      backend_open_gpu(&be, &(struct backend_options){.pool = pool, .eager = true},
                                       &e),
         ok = is_present && check_gpu(out, be, pool, kernels);
    if (!is_present) finding_text(finding_add(out, "gpu", EY_FINDING_NOTE), "%.500s", e.text);
    if (be) be->ops->destroy(be);
    pool_destroy(&pool);
    return ok;
}
