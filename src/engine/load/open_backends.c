/* SPDX-License-Identifier: Apache-2.0 */
/* Creates an engine and opens its checkpoint and backends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/open/open_backend.h"
#include "base/clock.h"
#include "base/limits.h"
#include "checkpoint/hf_cache.h"
#include "engine/load/load.h"

bool engine_open_headers(struct engine_devices *devices, const ey_engine_options *options,
                         ey_err *e)
{
    char directory[EY_MAX_PATH];
    const char *name = options->model;
    if (!name) return ey_fail(e, EY_BAD_REQUEST, "no model given; use --model");
    return model_directory_find(directory, name, e) &&
           checkpoint_open(&devices->ckpt, directory, e) &&
           model_open(&devices->model, devices->ckpt, options->task, e);
}

/* Whether the system has an NVIDIA GPU, usable or not. Under WSL2, Windows installs its driver in
 * this folder. */
static bool has_nvidia_gpu(void)
{
    return access("/dev/nvidiactl", F_OK) == 0 ||
           access("/usr/lib/wsl/lib/libcuda.so.1", F_OK) == 0;
}

static struct backend_options backend_options_of(const struct engine_devices *devices,
                                                 const ey_engine_options *options)
{
    return (struct backend_options){
        .pool = devices->pool, .cpu_mask = options->cpu_mask, .eager = options->enforce_eager};
}

/* Opens a usable GPU or falls back to the CPU. A GPU that is too small is an error, not a
 * reason to fall back. */
static bool open_best_backend(struct engine_devices *devices, const ey_engine_options *options,
                              ey_err *e)
{
    ey_err no_gpu = {0};
    const struct backend_options how = backend_options_of(devices, options);
    if (backend_open_gpu(&devices->be, &how, &no_gpu)) return true;
    if (no_gpu.code != EY_NO_DEVICE) {
        if (e) *e = no_gpu;
        return false;
    }
    if (options->notice && has_nvidia_gpu()) { /* tell the user why the GPU is not used */
        char text[sizeof(no_gpu.text) + 64];
        snprintf(text, sizeof(text), "the CPU is used, not the GPU: %s", no_gpu.text);
        options->notice(options->notice_user, text);
    }
    return backend_open(&devices->be, "cpu", &how, e);
}

bool engine_open_pool(struct engine_devices *devices, const ey_engine_options *options, ey_err *e)
{
    if (options->threads < 0 || options->threads > EY_MAX_THREADS)
        return ey_fail(e, EY_BAD_REQUEST, "%d threads; use 1 to %d, or 0 for one per core",
                       options->threads, EY_MAX_THREADS);
    return devices->pool || pool_create(&devices->pool, options->threads, e);
}

static bool open_named_backend(struct engine_devices *devices, const ey_engine_options *options,
                               ey_err *e)
{
    const char *device = options->device ? options->device : "auto";
    if (!engine_open_pool(devices, options, e)) return false;
    if (strcmp(device, "auto") == 0) return open_best_backend(devices, options, e);
    const struct backend_options how = backend_options_of(devices, options);
    return backend_open(&devices->be, device, &how, e);
}

bool engine_open_cpu(struct engine_devices *devices, const ey_engine_options *options, ey_err *e)
{
    if (!engine_open_pool(devices, options, e)) return false;
    const struct backend_options how = backend_options_of(devices, options);
    return backend_open(&devices->cpu, "cpu", &how, e);
}

bool engine_open_backend(struct engine_devices *devices, const ey_engine_options *options,
                         ey_err *e)
{
    double start = seconds_now();
    bool ok = open_named_backend(devices, options, e);
    devices->device_seconds = seconds_now() - start;
    return ok && (!devices->be->ops->device || engine_open_cpu(devices, options, e));
}

ey_engine *engine_new(ey_err *e)
{
    ey_engine *engine = calloc(1, sizeof(*engine));
    if (!engine) {
        ey_fail_memory(e, "the engine", sizeof(*engine));
        return NULL;
    }
    pthread_mutex_init(&engine->scheduler.lock, NULL);
    pthread_mutex_init(&engine->devices.lock, NULL);
    pthread_mutex_init(&engine->caches.token_lock, NULL);
    pthread_cond_init(&engine->devices.refinement.done, NULL);
    cond_init_monotonic(&engine->scheduler.work_ready);
    return engine;
}
