/* SPDX-License-Identifier: Apache-2.0 */
/* The base of the CUDA backend: errors, the device and its context, kernels, launches, the arena.
 * Does not depend on the backend's other files. */
#include "backend/cuda/cuda_context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda_fatbins.h"
#include "kernels/cuda/matmul/gemm_launch.h"
#include "kernels/cuda/matmul/matmul_small_sm90_launch.h"

/* ---- errors ---- */

bool cuda_check_call(struct cuda *c, CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS) return true;
    if (c->error.code == EY_OK) cuda_ok(&c->driver, result, what, &c->error);
    return false;
}

bool cuda_take_error(struct cuda *c, ey_err *e)
{
    if (c->error.code == EY_OK) return true;
    if (e) *e = c->error;
    c->error = (ey_err){0};
    c->group_in_buffer[0] = c->group_in_buffer[1] =
        -1; /* the contents of the buffers are undefined now */
    return false;
}

/* ---- opening ---- */

/* Maps all reasons why a GPU is unusable to one error code, for callers that test for a GPU. */
static bool device_usable(const struct cuda_driver *d, CUresult result, const char *what, ey_err *e)
{
    if (cuda_ok(d, result, what, e)) return true;
    if (e) e->code = EY_NO_DEVICE;
    return false;
}

static bool choose_device(struct cuda *c, ey_err *e)
{
    const struct cuda_driver *d = &c->driver;
    int n = 0, version = 0, major = 0, minor = 0;
    if (!device_usable(d, d->init(0), "it cannot be used", e) ||
        !device_usable(d, d->device_count(&n), "GPUs cannot be counted", e))
        return false;
    if (n < 1) return ey_fail(e, EY_NO_DEVICE, "there is no NVIDIA GPU");
    d->driver_version(&version);
    if (!device_usable(d, d->device_get(&c->device, 0), "it cannot be opened", e)) return false;
    d->device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, c->device);
    d->device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, c->device);
    d->device_attribute(&c->sm_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, c->device);
    int maps = 0, unified = 0;
    d->device_attribute(&maps, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, c->device);
    d->device_attribute(&unified, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, c->device);
    c->sees_pinned = maps && unified;
    d->device_attribute(&c->sm_shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                        c->device);
    c->sm_shared += 1 << 10; /* 1 KiB per block is reserved by the system */
    c->capability = major * 10 + minor;
    char name[96] = "an NVIDIA GPU";
    d->device_name(name, sizeof(name), c->device);
    snprintf(c->detail, sizeof(c->detail), "%s, sm_%d, %d SMs, CUDA %d.%d", name, c->capability,
             c->sm_count, version / 1000, version % 1000 / 10);
    if (c->capability < 80)
        return ey_fail(
            e, EY_NO_DEVICE,
            "%s has compute capability %d.%d; 8.0 or higher is needed (RTX 30 and later)", name,
            major, minor);
    if (!cuda_fatbins[0].name)
        return ey_fail(e, EY_NO_DEVICE,
                       "this build has no GPU kernels: build it where nvcc (CUDA 12.8 or "
                       "newer) is installed, or use a release");
    if (version / 1000 < cuda_fatbins_version / 1000)
        return ey_fail(e, EY_NO_DEVICE,
                       "the driver knows CUDA %d.%d; this build needs %d.%d: install a newer "
                       "driver (under WSL2: on Windows)",
                       version / 1000, version % 1000 / 10, cuda_fatbins_version / 1000,
                       cuda_fatbins_version % 1000 / 10);
    return true;
}

/* Creates the context and the stream. Without buffers for device-side printf and malloc, the
 * context takes less GPU memory. */
static bool open_context(struct cuda *c, ey_err *e)
{
    const struct cuda_driver *d = &c->driver;
    d->context_flags(c->device, CU_CTX_SCHED_SPIN);
    if (!cuda_ok(d, d->context_retain(&c->context, c->device), "no context", e) ||
        !cuda_ok(d, d->context_current(c->context), "no context", e))
        return false;
    d->context_limit(CU_LIMIT_PRINTF_FIFO_SIZE, 0);
    d->context_limit(CU_LIMIT_MALLOC_HEAP_SIZE, 0);
    c->dependent_launch = c->capability >= 90;
    return cuda_ok(d, d->stream_create(&c->stream, CU_STREAM_NON_BLOCKING), "no stream", e);
}

static enum gpu_kernel kernel_named(const char *name)
{
    int kernel = 1;
    while (kernel < GPU_KERNELS && strcmp(gpu_kernel_name((enum gpu_kernel)kernel), name) != 0)
        kernel++;
    return kernel < GPU_KERNELS ? (enum gpu_kernel)kernel : GPU_NO_KERNEL;
}

/* Kernels for 9.0 use instructions that later GPUs lack. */
static bool kernel_fits_gpu(const struct cuda *c, enum gpu_kernel kernel)
{
    int capability = gpu_kernel_info(kernel)->capability;
    return capability == 90 ? c->capability == 90 : c->capability >= capability;
}

enum { MAX_FUNCTIONS = 256 }; /* kernels of a module */

/* Loads all kernels now: a kernel loaded at its first launch would allocate memory then. */
static bool load_functions(struct cuda *c, CUmodule module, ey_err *e)
{
    const struct cuda_driver *d = &c->driver;
    CUfunction functions[MAX_FUNCTIONS];
    unsigned n = 0;
    if (!cuda_ok(d, d->module_function_count(&n, module), "kernels", e)) return false;
    if (n > MAX_FUNCTIONS) return ey_fail(e, EY_INTERNAL, "%u kernels are too many", n);
    if (!cuda_ok(d, d->module_functions(functions, n, module), "kernels", e)) return false;
    for (unsigned i = 0; i < n; i++) {
        const char *name = NULL;
        if (!cuda_ok(d, d->function_name(&name, functions[i]), "a kernel's name", e)) return false;
        enum gpu_kernel kernel = kernel_named(name);
        if (!kernel || !kernel_fits_gpu(c, kernel)) continue;
        if (!cuda_ok(d, d->function_load(functions[i]), name, e)) return false;
        c->function[kernel] = functions[i];
    }
    return true;
}

/* Checks that the required kernels exist. The kernels of a file for one capability are optional
 * as a group: a build may lack them, and the tests' emulator does. */
static bool has_all_kernels(const struct cuda *c, ey_err *e)
{
    for (int i = 1; i < GPU_KERNELS; i++) {
        enum gpu_kernel kernel = (enum gpu_kernel)i;
        const struct gpu_kernel_entry *info = gpu_kernel_info(kernel);
        bool wanted = info->family == FAMILY_MATMUL_SMALL_SM90       ? c->has_small_sm90
                      : info->family == FAMILY_ATTENTION_VISION_SM90 ? c->has_vision_sm90
                      : info->capability == 90                       ? c->has_gemm_sm90
                      : info->capability == FP8_CAPABILITY           ? c->has_gemm_w8a8
                                                                     : true;
        if (wanted && !c->function[kernel])
            return ey_fail(e, EY_INTERNAL, "the GPU's kernels of this build lack %s",
                           gpu_kernel_name(kernel));
    }
    return true;
}

/* Whether the fatbin suits the GPU: a name ending in _sm90 is for that capability alone, _sm89 for
 * that and later ones. */
static bool fatbin_fits_gpu(const struct cuda *c, const struct cuda_fatbin *fatbin)
{
    if (strstr(fatbin->name, "_sm89")) return c->capability >= FP8_CAPABILITY;
    return !strstr(fatbin->name, "_sm90") || c->capability == 90;
}

static bool load_kernels(struct cuda *c, ey_err *e)
{
    const struct cuda_driver *d = &c->driver;
    for (const struct cuda_fatbin *fatbin = cuda_fatbins; fatbin->name; fatbin++) {
        if (!fatbin_fits_gpu(c, fatbin)) continue;
        CUresult result = d->module_load(&c->module[c->n_modules], fatbin->data);
        if (result == CUDA_ERROR_NO_BINARY_FOR_GPU && strstr(fatbin->name, "_sm89"))
            continue; /* other kernels can replace it */
        if (result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_INVALID_IMAGE)
            return ey_fail(e, EY_NO_DEVICE,
                           "this build has kernels for sm_%s, and the GPU is sm_%d: build it "
                           "here, or use a release",
                           cuda_fatbins_archs, c->capability);
        if (!cuda_ok(d, result, fatbin->name, e)) return false;
        if (!load_functions(c, c->module[c->n_modules++], e)) return false;
    }
    c->has_gemm_sm90 = c->function[gemm_tile(GEMM_PORTABLE_TILES)->fp8] != NULL;
    c->has_vision_sm90 = c->function[GPU_attention_vision_sm90] != NULL;
    c->has_small_sm90 = c->function[GPU_make_planes] != NULL;
    c->has_gemm_w8a8 = c->function[GPU_gemm_w8a8] != NULL;
    return has_all_kernels(c, e);
}

/* ---- launching ---- */

/* Dynamic shared memory that a launch may use without an attribute: static arrays also count
 * towards the 48 KiB limit, and are well below the 16 KiB left for them. */
enum { SHARED_WITHOUT_ASKING = 32 << 10 };

struct planes_args cuda_take_pending(struct cuda *c)
{
    const struct pending_parts *p = &c->pending;
    struct planes_args a = {.x = p->x,
                            .partial = (const float *)(void *)c->scratch[SCRATCH_PARTS],
                            .x_f32 = 1,
                            .splits = p->splits,
                            .part_tokens = p->tokens,
                            .n = p->n,
                            .k = p->width,
                            .ldx = p->width};
    c->pending.x = NULL;
    return a;
}

void cuda_add_pending(struct cuda *c)
{
    if (!c->pending.x) return;
    const struct planes_args a = cuda_take_pending(c);
    const struct launch l = make_planes_launch(&a);
    cuda_launch(c, &l, &a);
}

void cuda_launch(struct cuda *c, const struct launch *l, const void *args)
{
    cuda_add_pending(c);
    CUlaunchAttribute dependent = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                   .value.programmaticStreamSerializationAllowed = 1};
    CUlaunchConfig config = {l->grid[0], l->grid[1], l->grid[2], l->block,   1,
                             1,          l->shared,  c->stream,  &dependent, 0};
    void *params[] = {(void *)(uintptr_t)args};
    const char *name = gpu_kernel_name(l->kernel);
    CUfunction f = c->function[l->kernel];
    if (!f) {
        if (c->error.code == EY_OK) ey_fail(&c->error, EY_INTERNAL, "there is no kernel %s", name);
        return;
    }
    c->launched[l->kernel] = true;
    config.numAttrs =
        c->dependent_launch &&
        !c->weights_changed; /* every kernel waits itself before it reads what earlier ones write */
    c->weights_changed = false;
    if (l->shared > SHARED_WITHOUT_ASKING)
        cuda_check_call(c,
                        c->driver.function_attribute(
                            f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)l->shared),
                        name);
    cuda_check_call(c, c->driver.launch(&config, f, params, NULL), name);
}

/* ---- memory ---- */

void *cuda_alloc(struct cuda *c, size_t bytes, const char *what, ey_err *e)
{
    CUdeviceptr p = 0;
    size_t size = cuda_aligned(bytes ? bytes : 1);
    if (c->loading && size > c->arena_size - LOAD_STAGING - c->arena_used)
        c->loading = false; /* a small model: staging is allocated separately */
    size_t end = c->arena_size - (c->loading ? LOAD_STAGING : 0);
    if (!c->arena)
        return cuda_ok(&c->driver, c->driver.memory_alloc(&p, size), what, e) ? (void *)(uintptr_t)p
                                                                              : NULL;
    if (size > end - c->arena_used) {
        ey_fail(e, EY_INTERNAL,
                "the GPU memory plan is too small: %s needs %zu bytes and %zu are left", what, size,
                end - c->arena_used);
        return NULL;
    }
    void *out = c->arena + c->arena_used;
    c->arena_used += size;
    return out;
}

size_t cuda_wide_bytes(const struct cuda *c)
{
    size_t bytes[SCRATCH_BUFFERS];
    cuda_scratch_sizes(bytes, &c->limits);
    return bytes[SCRATCH_WIDE];
}

bool cuda_finish(struct backend *be, ey_err *e)
{
    struct cuda *c = cuda_of(be);
    cuda_add_pending(c);
    cuda_check_call(c, c->driver.stream_sync(c->stream), "a step");
    c->small.copied.n_rows = c->large.copied.n_rows =
        0; /* the caller may change its arrays from now on */
    return cuda_take_error(c, e);
}

bool cuda_context_open(struct cuda *c, ey_err *e)
{
    return choose_device(c, e) && open_context(c, e) && load_kernels(c, e);
}
