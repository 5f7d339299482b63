/* SPDX-License-Identifier: Apache-2.0 */
/* The backend's operation tables, its creation and destruction, and operations outside a model's
 * steps: buffers, transfers, measurements. */
#include "backend/cuda/cuda_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda_kernel_ids.h"
#include "backend/cuda/selftest.h"
#include "kernels/cuda/loading/roofline_launch.h"
#include "tensor/dequantize.h"

/* ---- memory ---- */

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
        cuda_release(&c->base, c->scratch_memory); /* tests call reserve() repeatedly */
    c->scratch_memory = cuda_alloc(c, sum, "scratch space", e);
    char *at = c->scratch_memory;
    for (int i = 0; at && i < SCRATCH_BUFFERS; at += cuda_aligned(bytes[i++]))
        c->scratch[i] = at;
    c->limits = *l;
    c->parts_bytes = bytes[SCRATCH_PARTS];
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
    return reserve_scratch(c, l, e) && cuda_steps_open(c, e);
}

/* On compute capability 9.0 to 11.x, FP8 matmuls need other instructions than gemm_w8a8's, which is
 * emulated there by conversions and BF16 matmuls and therefore slow. */
static bool cuda_takes_fp8_prompts(const struct backend *be, bool *slow, ey_err *why)
{
    const struct cuda *c = (const struct cuda *)be;
    const int major = c->capability / 10, minor = c->capability % 10;
    *slow = c->capability >= 90 && c->capability < 120;
    if (c->capability < FP8_CAPABILITY)
        return ey_fail(
            why, EY_NO_DEVICE,
            "the GPU has compute capability %d.%d, and FP8 matmuls need 8.9 (RTX 40 and later)",
            major, minor);
    if (!c->has_gemm_w8a8)
        return ey_fail(why, EY_NO_DEVICE,
                       "this build has no FP8 kernels for compute capability %d.%d", major, minor);
    return !cuda_family_failed(c, FAMILY_GEMM_W8A8) ||
           ey_fail(why, EY_NO_DEVICE,
                   "the FP8 kernel computes wrongly on this GPU (eyelet doctor --kernels)");
}

static dev cuda_element_at(struct backend *be, dev p, enum element kind, size_t n)
{
    return (char *)p + n * be->ops->memory->element_size[kind];
}

/* ---- copies to and from the host, for tests and small data ---- */

static bool cuda_fetch(struct cuda *c, void *to, const void *from, size_t bytes)
{
    cuda_add_pending(c);
    return cuda_check_call(c, c->driver.to_host(to, (CUdeviceptr)(uintptr_t)from, bytes, c->stream),
                           "reading") &&
           cuda_check_call(c, c->driver.stream_sync(c->stream), "reading");
}

static void cuda_read_elements(struct backend *be, float *out, dev in, enum element kind, size_t n)
{
    struct cuda *c = cuda_of(be);
    size_t size = be->ops->memory->element_size[kind];
    memset(out, 0, n * sizeof(float));
    if (!cuda_fetch(c, out, in, n * size) || size == sizeof(float)) return;
    for (size_t i = n; i--;) { /* converts in place, from the end */
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
    if (be->ops->memory->element_size[kind] == sizeof(float)) {
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

/* ---- limits of the GPU ---- */

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

/* Returns the best rate of a few rounds of `work` each. */
static double best_rate(struct cuda *c, const struct launch *l, const void *args, double work)
{
    double best = 0, seconds;
    for (int i = 0; i < MEASURE_ROUNDS && timed_launch(c, l, args, &seconds); i++)
        if (work / seconds > best) best = work / seconds;
    return best;
}

/* Measures bandwidth by reading the arena, which exists anyway. */
static bool cuda_measure_limits(struct backend *be, struct device_roofline *limits, ey_err *e)
{
    struct cuda *c = cuda_of(be);
    uint32_t *out = (uint32_t *)(void *)c->scratch[SCRATCH_TOPK_PART];
    size_t bytes = c->arena_size < MEASURE_BYTES ? c->arena_size / 16 * 16 : MEASURE_BYTES;
    struct launch reading = read_memory_launch(c->sm_count), peak = mma_peak_launch(c->sm_count);
    if (!c->arena || !bytes || !out)
        return ey_fail(e, EY_INTERNAL, "the GPU has no memory to read yet");
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

void cuda_release_memory(struct cuda *c)
{
    const struct cuda_driver *d = &c->driver;
    if (c->stream) d->stream_sync(c->stream);
    for (int i = 0; i < c->n_captured; i++)
        d->graph_exec_destroy(c->captured[i].graph);
    cuda_unpin_rows(c);
    if (c->pinned_step_memory) d->host_free(c->pinned_step_memory);
    for (int i = 0; i < 2; i++)
        if (c->step_output[i].done) d->event_destroy(c->step_output[i].done);
    cuda_read_timer_close(c);
    if (c->scratch_memory) cuda_release(&c->base, c->scratch_memory);
    if (c->staging_own) d->memory_free((CUdeviceptr)(uintptr_t)c->staging);
    if (c->arena) d->memory_free((CUdeviceptr)(uintptr_t)c->arena);
    free(c->packed);
    free(c->streamed);
    arena_free(&c->placed);
}

static void cuda_destroy(struct backend *be)
{
    struct cuda *c = cuda_of(be);
    const struct cuda_driver *d = &c->driver;
    if (c->context) cuda_attach(be);
    cuda_release_memory(c);
    cuda_upload_close(c);
    for (int i = 0; i < c->n_modules; i++)
        d->module_unload(c->module[i]);
    if (c->stream) d->stream_destroy(c->stream);
    if (c->context) d->context_release(c->device);
    cuda_driver_close(&c->driver);
    free(c);
}

static bool cuda_device_info(const struct backend *be, struct gpu_info *out, ey_err *e)
{
    const struct cuda *c = (const struct cuda *)be;
    size_t left = 0, total = 0, whole = 0;
    if (!cuda_ok(&c->driver, c->driver.memory_info(&left, &total), "its free memory", e))
        return false;
    c->driver.device_total(&whole, c->device);
    *out = (struct gpu_info){.total = total,
                             .free = left,
                             .sm_count = c->sm_count,
                             .capability = c->capability,
                             .rated_reads = cuda_rated_bandwidth(c)};
    snprintf(out->name, sizeof(out->name), "%s", c->detail);
    if (c->driver.device_bus(out->bus, sizeof(out->bus), c->device) != CUDA_SUCCESS)
        out->bus[0] = 0;
    return true;
}

static const struct compute_ops cuda_compute = {
    .check_shapes = cuda_check_shapes,
    .supports_fp8_prompts = cuda_takes_fp8_prompts,
    .topk = cuda_read_topk,
    .finish = cuda_finish,
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

static const struct memory_ops cuda_memory = {
    .element_size = {sizeof(float), sizeof(bf16), sizeof(float), sizeof(bf16)},
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
    .reads_pinned_rows = cuda_reads_pinned_rows,
    .at = cuda_element_at,
};

static const struct graph_ops cuda_graph = {
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .launch = cuda_launch_graph,
    .end_step = cuda_end_step,
    .enqueue_speculative = cuda_enqueue_speculative,
    .wait = cuda_wait,
    .commit = cuda_commit,
    .verify = cuda_verify,
    .drop = cuda_drop,
};

static const struct device_ops cuda_device = {
    .attach = cuda_attach,
    .info = cuda_device_info,
    .can_pin_rows = cuda_can_pin_rows,
    .arena_bytes = cuda_arena_bytes,
    .time_read = cuda_time_read,
    .selftest = cuda_selftest,
};

static const struct backend_ops cuda_ops = {
    .name = "cuda",
    .detail = cuda_detail,
    .measure_roofline = cuda_measure_limits,
    .destroy = cuda_destroy,
    .compute = &cuda_compute,
    .memory = &cuda_memory,
    .graph = &cuda_graph,
    .device = &cuda_device,
};

bool backend_cuda_create_on(struct backend **be, const struct cuda_driver *driver,
                            struct pool *pool, bool eager, ey_err *e)
{
    struct cuda *c = calloc(1, sizeof(*c));
    if (!c) {
        struct cuda_driver unused = *driver;
        cuda_driver_close(&unused);
        return ey_fail_memory(e, "the cuda backend", sizeof(*c));
    }
    c->base.ops = &cuda_ops;
    c->pool = pool;
    c->driver = *driver;
    c->eager = eager;
    *be = &c->base;
    if (cuda_context_open(c, e) && cuda_upload_open(c, e)) return true;
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
