/* SPDX-License-Identifier: Apache-2.0 */
/* The card: opening it, its memory, launching, and the table of steps. */
#include "backend/cuda/cuda_context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/dequantize.h"
#include "backend/cuda/cuda_kernel_ids.h"
#include "kernels/cuda/cuda_fatbins.h"
#include "kernels/cuda/loading/roofline_launch.h"

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
    c->group_in_buffer[0] = c->group_in_buffer[1] = -1; /* what came of them is not known */
    return false;
}

/* ---- opening ---- */

/* Whatever stands in the way of a card's use is the same to who asks whether there is one. */
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
        !device_usable(d, d->device_count(&n), "cannot be counted", e))
        return false;
    if (n < 1) return ey_fail(e, EY_NO_DEVICE, "there is no NVIDIA card");
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
    c->sm_shared += 1 << 10; /* what a block cannot have is the system's */
    c->capability = major * 10 + minor;
    char name[96] = "an NVIDIA card";
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
                       "this build has no kernels for cards: build it where nvcc (CUDA 12.8 or "
                       "newer) is, or take a release");
    if (version / 1000 < cuda_fatbins_version / 1000)
        return ey_fail(e, EY_NO_DEVICE,
                       "the driver knows CUDA %d.%d; this build needs %d.%d: install a newer "
                       "driver (under WSL2: on Windows)",
                       version / 1000, version % 1000 / 10, cuda_fatbins_version / 1000,
                       cuda_fatbins_version % 1000 / 10);
    return true;
}

/* The context's own memory is taken here; a small stack and no device-side printf or malloc keep it
 * small. */
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

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* All at once: a kernel that is loaded at its first launch would take memory then. */
static bool load_functions(struct cuda *c, CUmodule module, ey_err *e)
{
    const struct cuda_driver *d = &c->driver;
    CUfunction functions[MAX_KERNELS];
    unsigned n = 0;
    if (!cuda_ok(d, d->module_function_count(&n, module), "kernels", e)) return false;
    if (n > (unsigned)(MAX_KERNELS - c->n_kernels))
        return ey_fail(e, EY_INTERNAL, "%u kernels are too many", n);
    if (!cuda_ok(d, d->module_functions(functions, n, module), "kernels", e)) return false;
    for (unsigned i = 0; i < n; i++) {
        const char *name = NULL;
        if (!cuda_ok(d, d->function_name(&name, functions[i]), "a kernel's name", e) ||
            !cuda_ok(d, d->function_load(functions[i]), name, e))
            return false;
        c->kernel[c->n_kernels].name = name;
        c->kernel[c->n_kernels++].function = functions[i];
    }
    return true;
}

static CUfunction find_kernel(const struct cuda *c, const char *name)
{
    int low = 0, high = c->n_kernels;
    while (low < high) {
        int middle = (low + high) / 2, order = strcmp(c->kernel[middle].name, name);
        if (order == 0) return c->kernel[middle].function;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* An image may be for cards of one capability alone, or from one on, as its name says at the end.
 */
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
            continue; /* what it is for can be done without it */
        if (result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_INVALID_IMAGE)
            return ey_fail(e, EY_NO_DEVICE,
                           "this build has kernels for sm_%s, and the card is sm_%d: build it "
                           "here, or take a release",
                           cuda_fatbins_archs, c->capability);
        if (!cuda_ok(d, result, fatbin->name, e)) return false;
        if (!load_functions(c, c->module[c->n_modules++], e)) return false;
    }
    qsort(c->kernel, (size_t)c->n_kernels, sizeof(c->kernel[0]), by_name);
    c->has_gemm_sm90 = c->capability == 90 && find_kernel(c, gemm_tile(GEMM_PORTABLE_TILES)->fp8);
    c->has_gemm_w8a8 = c->capability >= FP8_CAPABILITY && find_kernel(c, "gemm_w8a8") &&
                       find_kernel(c, "quantize_rows");
    return true;
}

/* 9.x and 10.x have FP8 in other instructions alone, and make this one of conversions and BF16
 * products. */
static bool cuda_takes_fp8_prompts(const struct backend *be, bool *slow, ey_err *why)
{
    const struct cuda *c = (const struct cuda *)be;
    const int major = c->capability / 10, minor = c->capability % 10;
    *slow = c->capability >= 90 && c->capability < 120;
    if (c->capability < FP8_CAPABILITY)
        return ey_fail(
            why, EY_NO_DEVICE,
            "the card has compute capability %d.%d, and FP8 products need 8.9 (RTX 40 and later)",
            major, minor);
    if (!c->has_gemm_w8a8)
        return ey_fail(why, EY_NO_DEVICE,
                       "this build has no FP8 kernels for compute capability %d.%d", major, minor);
    return !cuda_kernel_failed(c, KERNEL_GEMM_W8A8) ||
           ey_fail(why, EY_NO_DEVICE,
                   "the FP8 kernel computes wrongly on this card (eyelet doctor --kernels)");
}

/* ---- launching ---- */

/* Of shared memory. A kernel's arrays of fixed size count in the 48 KiB that every launch may have,
 * and are well below the 16 KiB that are left to them here. */
enum { SHARED_WITHOUT_ASKING = 32 << 10 };

void cuda_launch(struct cuda *c, const struct launch *l, const void *args)
{
    CUlaunchAttribute dependent = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                   .value.programmaticStreamSerializationAllowed = 1};
    CUlaunchConfig config = {l->grid[0], l->grid[1], l->grid[2], l->block,   1,
                             1,          l->shared,  c->stream,  &dependent, 0};
    void *params[] = {(void *)(uintptr_t)args};
    CUfunction f = find_kernel(c, l->kernel);
    if (!f) {
        if (c->error.code == EY_OK)
            ey_fail(&c->error, EY_INTERNAL, "there is no kernel %s", l->kernel);
        return;
    }
    config.numAttrs = c->dependent_launch &&
                      !c->weights_changed; /* every kernel waits itself, where it begins to need
                                              what those before it write */
    c->weights_changed = false;
    if (l->shared > SHARED_WITHOUT_ASKING)
        cuda_check_call(c,
                        c->driver.function_attribute(
                            f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)l->shared),
                        l->kernel);
    cuda_check_call(c, c->driver.launch(&config, f, params, NULL), l->kernel);
}

/* ---- memory ---- */

void *cuda_alloc(struct cuda *c, size_t bytes, const char *what, ey_err *e)
{
    CUdeviceptr p = 0;
    size_t size = cuda_aligned(bytes ? bytes : 1);
    if (c->loading && size > c->arena_size - LOAD_STAGING - c->arena_used)
        c->loading = false; /* a small model: the staging is its own */
    size_t end = c->arena_size - (c->loading ? LOAD_STAGING : 0);
    if (!c->arena)
        return cuda_ok(&c->driver, c->driver.memory_alloc(&p, size), what, e) ? (void *)(uintptr_t)p
                                                                              : NULL;
    if (size > end - c->arena_used) {
        ey_fail(e, EY_INTERNAL,
                "the plan of the card is too small: %s needs %zu bytes and %zu are left", what,
                size, end - c->arena_used);
        return NULL;
    }
    void *out = c->arena + c->arena_used;
    c->arena_used += size;
    return out;
}

static dev cuda_alloc_bytes(struct backend *be, size_t bytes, ey_err *e)
{
    return cuda_alloc(cuda_of(be), bytes, "a buffer", e);
}

static void cuda_release(struct backend *be, dev p)
{
    struct cuda *c = cuda_of(be);
    if (!c->arena) c->driver.memory_free((CUdeviceptr)(uintptr_t)p);
}

static bool cuda_open_arena(struct backend *be, uint64_t bytes, ey_err *e)
{
    struct cuda *c = cuda_of(be);
    CUdeviceptr p = 0;
    if (!cuda_ok(&c->driver, c->driver.memory_alloc(&p, bytes), "its part of the memory plan", e))
        return false;
    c->arena = (char *)(uintptr_t)p;
    c->arena_size = bytes;
    c->arena_used = 0;
    c->loading = bytes > LOAD_STAGING;
    return true;
}

static bool reserve_scratch(struct cuda *c, const struct backend_limits *l, ey_err *e)
{
    size_t bytes[SCRATCH_BUFFERS], sum = cuda_buffer_bytes(l);
    cuda_scratch_sizes(bytes, l);
    if (c->scratch_memory)
        cuda_release(&c->base, c->scratch_memory); /* tests reserve again and again */
    c->scratch_memory = cuda_alloc(c, sum, "scratch space", e);
    char *at = c->scratch_memory;
    for (int i = 0; at && i < SCRATCH_BUFFERS; at += cuda_aligned(bytes[i++]))
        c->scratch[i] = at;
    c->limits = *l;
    return c->scratch_memory &&
           cuda_ok(
               &c->driver,
               c->driver.set_bytes((CUdeviceptr)(uintptr_t)c->scratch_memory, 0, sum, c->stream),
               "clearing", e);
}

static bool cuda_reserve(struct backend *be, const struct backend_limits *l, ey_err *e)
{
    struct cuda *c = cuda_of(be);
    cuda_unpin_rows(c);
    if (!cuda_finish_loading(c, e)) return false;
    if (l->read_pinned_rows) cuda_pin_rows(c);
    return reserve_scratch(c, l, e) && cuda_batches_open(c, e);
}

size_t cuda_wide_bytes(const struct cuda *c)
{
    size_t bytes[SCRATCH_BUFFERS];
    cuda_scratch_sizes(bytes, &c->limits);
    return bytes[SCRATCH_WIDE];
}

static dev cuda_element_at(struct backend *be, dev p, enum element kind, size_t n)
{
    return (char *)p + n * be->ops->element_size[kind];
}

/* ---- to and from the host: for tests, and for what is small ---- */

static bool cuda_fetch(struct cuda *c, void *to, const void *from, size_t bytes)
{
    return cuda_check_call(c, c->driver.to_host(to, (CUdeviceptr)(uintptr_t)from, bytes, c->stream),
                           "reading") &&
           cuda_check_call(c, c->driver.stream_sync(c->stream), "reading");
}

static void cuda_read_elements(struct backend *be, float *out, dev in, enum element kind, size_t n)
{
    struct cuda *c = cuda_of(be);
    size_t size = be->ops->element_size[kind];
    memset(out, 0, n * sizeof(float));
    if (!cuda_fetch(c, out, in, n * size) || size == sizeof(float)) return;
    for (size_t i = n; i--;) { /* in place, from the end */
        bf16 value;
        memcpy(&value, (const char *)out + i * sizeof(value), sizeof(value));
        out[i] = bf16_to_f32(value);
    }
}

static void cuda_write_elements(struct backend *be, dev out, const float *in, enum element kind,
                                size_t n)
{
    struct cuda *c = cuda_of(be);
    enum { PIECE = 4096 };
    if (be->ops->element_size[kind] == sizeof(float)) {
        cuda_upload(c, out, in, n * sizeof(float));
        return;
    }
    for (size_t first = 0; first < n; first += PIECE) {
        bf16 piece[PIECE];
        size_t count = n - first < PIECE ? n - first : PIECE;
        for (size_t i = 0; i < count; i++)
            piece[i] = f32_to_bf16(in[first + i]);
        cuda_upload(c, (bf16 *)out + first, piece, count * sizeof(piece[0]));
    }
}

static void cuda_read_logits(struct backend *be, float *out, const float *in, size_t n)
{
    cuda_fetch(cuda_of(be), out, in, n * sizeof(float));
}

static bool cuda_finish(struct backend *be, ey_err *e)
{
    struct cuda *c = cuda_of(be);
    cuda_check_call(c, c->driver.stream_sync(c->stream), "a step");
    c->small.copied.n_rows = c->large.copied.n_rows = 0; /* the caller may change its arrays now */
    return cuda_take_error(c, e);
}

/* ---- limits of the card ---- */

enum { MEASURE_BYTES = 512 << 20, MEASURE_TIMES = 4, MEASURE_ROUNDS = 5, PEAK_TIMES = 4096 };

static bool timed_launch(struct cuda *c, const struct launch *l, const void *args, double *seconds)
{
    CUevent start = NULL, end = NULL;
    float ms = 0;
    bool ok = cuda_check_call(c, c->driver.event_create(&start, CU_EVENT_DEFAULT), "timing") &&
              cuda_check_call(c, c->driver.event_create(&end, CU_EVENT_DEFAULT), "timing") &&
              cuda_check_call(c, c->driver.event_record(start, c->stream), "timing");
    if (ok) cuda_launch(c, l, args);
    ok = ok && cuda_check_call(c, c->driver.event_record(end, c->stream), "timing") &&
         cuda_check_call(c, c->driver.event_sync(end), "timing") &&
         cuda_check_call(c, c->driver.event_seconds(&ms, start, end), "timing");
    if (start) c->driver.event_destroy(start);
    if (end) c->driver.event_destroy(end);
    *seconds = ms * 1e-3;
    return ok && ms > 0;
}

/* The best of a few rounds of `work` each. */
static double best_rate(struct cuda *c, const struct launch *l, const void *args, double work)
{
    double best = 0, seconds;
    for (int i = 0; i < MEASURE_ROUNDS && timed_launch(c, l, args, &seconds); i++)
        if (work / seconds > best) best = work / seconds;
    return best;
}

/* Reads the arena, which is there anyway. */
static bool cuda_measure_limits(struct backend *be, struct device_roofline *limits, ey_err *e)
{
    struct cuda *c = cuda_of(be);
    uint32_t *out = (uint32_t *)(void *)c->scratch[SCRATCH_TOPK_PART];
    size_t bytes = c->arena_size < MEASURE_BYTES ? c->arena_size / 16 * 16 : MEASURE_BYTES;
    struct launch reading = read_memory_launch(c->sm_count), peak = mma_peak_launch(c->sm_count);
    if (!c->arena || !bytes || !out)
        return ey_fail(e, EY_INTERNAL, "there is nothing to read on the card yet");
    const struct read_memory_args r = {c->arena, out, (int64_t)bytes, MEASURE_TIMES};
    const struct mma_peak_args p = {out, PEAK_TIMES};
    limits->bandwidth = best_rate(c, &reading, &r, (double)bytes * MEASURE_TIMES);
    limits->flops = best_rate(c, &peak, &p, mma_peak_flops(&peak, PEAK_TIMES));
    limits->vector_flops = 0;
    return cuda_finish(be, e);
}

/* ---- the table ---- */

static const char *cuda_detail(const struct backend *be)
{
    return ((const struct cuda *)be)->detail;
}

static void cuda_attach(struct backend *be)
{
    struct cuda *c = cuda_of(be);
    cuda_check_call(c, c->driver.context_current(c->context), "its context");
}

static void cuda_destroy(struct backend *be)
{
    struct cuda *c = cuda_of(be);
    const struct cuda_driver *d = &c->driver;
    if (c->context) cuda_attach(be);
    if (c->stream) d->stream_sync(c->stream);
    for (int i = 0; i < MAX_GRAPHS; i++)
        if (c->graph[i]) d->graph_exec_destroy(c->graph[i]);
    cuda_upload_close(c);
    cuda_unpin_rows(c);
    if (c->pinned_step_memory) d->host_free(c->pinned_step_memory);
    for (int i = 0; i < 2; i++)
        if (c->step_output[i].done) d->event_destroy(c->step_output[i].done);
    cuda_read_timer_close(c);
    if (c->scratch_memory) cuda_release(be, c->scratch_memory);
    if (c->arena) d->memory_free((CUdeviceptr)(uintptr_t)c->arena);
    for (int i = 0; i < c->n_modules; i++)
        d->module_unload(c->module[i]);
    if (c->stream) d->stream_destroy(c->stream);
    if (c->context) d->context_release(c->device);
    cuda_driver_close(&c->driver);
    free(c->packed);
    free(c->streamed);
    free(c);
}

static const struct backend_ops cuda_ops = {
    .name = "cuda",
    .element_size = {sizeof(float), sizeof(bf16), sizeof(float), sizeof(bf16)},
    .detail = cuda_detail,
    .measure_roofline = cuda_measure_limits,
    .destroy = cuda_destroy,
    .attach = cuda_attach,
    .check_shapes = cuda_check_shapes,
    .supports_fp8_prompts = cuda_takes_fp8_prompts,
    .scratch_bytes = cuda_scratch_bytes,
    .reserve = cuda_reserve,
    .alloc = cuda_alloc_bytes,
    .release = cuda_release,
    .kv_bytes = cuda_kv_bytes,
    .weight_bytes = cuda_weight_bytes,
    .open_arena = cuda_open_arena,
    .place = cuda_place,
    .open_group = cuda_open_group,
    .read = cuda_read_elements,
    .write = cuda_write_elements,
    .read_logits = cuda_read_logits,
    .topk = cuda_read_topk,
    .reads_pinned_rows = cuda_reads_pinned_rows,
    .finish = cuda_finish,
    .at = cuda_element_at,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .launch_graph = cuda_launch_graph,
    .enqueue_speculative = cuda_enqueue_speculative,
    .wait_previous = cuda_wait_previous,
    .commit_speculative = cuda_commit,
    .verify_speculative = cuda_verify,
    .embed = cuda_embed,
    .rope_table = cuda_rope_table,
    .qkv = cuda_qkv,
    .attention = cuda_attention,
    .qkv_attention = cuda_qkv_attention,
    .project_add = cuda_project_add,
    .gate_up = cuda_gate_up,
    .add_features = cuda_add_features,
    .lm_head = cuda_lm_head,
    .patch_embed = cuda_patch_embed,
    .patch_embed_rgb = cuda_patch_embed_rgb,
    .vision_qkv = cuda_vision_qkv,
    .vision_attention = cuda_vision_attention,
    .vision_mlp = cuda_vision_mlp,
    .vision_project_add = cuda_vision_project_add,
    .merge = cuda_merge,
};

static bool cuda_open_all(struct cuda *c, ey_err *e)
{
    return choose_device(c, e) && open_context(c, e) && load_kernels(c, e) &&
           cuda_upload_open(c, e);
}

bool backend_cuda_create_on(struct backend **be, const struct cuda_driver *driver,
                            struct pool *pool, bool eager, ey_err *e)
{
    struct cuda *c = calloc(1, sizeof(*c));
    if (!c) return ey_fail_memory(e, "the cuda backend", sizeof(*c));
    c->base.ops = &cuda_ops;
    c->pool = pool;
    c->driver = *driver;
    c->eager = eager;
    *be = &c->base;
    if (cuda_open_all(c, e)) return true;
    cuda_destroy(&c->base);
    *be = NULL;
    return false;
}

bool backend_cuda_create(struct backend **be, struct pool *pool, bool eager, ey_err *e)
{
    struct cuda_driver driver;
    *be = NULL;
    return cuda_driver_open(&driver, e) && backend_cuda_create_on(be, &driver, pool, eager, e);
}

bool backend_cuda_device_info(const struct backend *be, struct cuda_device_info *out, ey_err *e)
{
    const struct cuda *c = (const struct cuda *)be;
    size_t left = 0, total = 0, whole = 0;
    if (!cuda_ok(&c->driver, c->driver.memory_info(&left, &total), "its free memory", e))
        return false;
    c->driver.device_total(&whole, c->device);
    *out = (struct cuda_device_info){.total = total,
                                     .free = left,
                                     .sm_count = c->sm_count,
                                     .capability = c->capability,
                                     .rated_reads = cuda_rated_bandwidth(c)};
    snprintf(out->name, sizeof(out->name), "%s", c->detail);
    if (c->driver.device_bus(out->bus, sizeof(out->bus), c->device) != CUDA_SUCCESS)
        out->bus[0] = 0;
    return true;
}
