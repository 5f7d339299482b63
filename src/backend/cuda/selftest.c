/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the self-test before anything else is on the GPU, in an arena of its own that it frees
 * afterwards. */
#include "backend/cuda/selftest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- verdicts ---- */

#define MAX_ERROR                                                                              \
    1e-2f /* relative RMS error: several times that of BF16 results, far below that of a wrong \
             element */

void selftest_judge(struct selftest *t, enum gpu_family family, const float *got, const float *want,
                    size_t n)
{
    struct selftest_result *v = &t->report->kernel[family];
    double power = 0, error = 0;
    bool far = false;
    if (!got || !want) return; /* without memory, the kernel is not judged */
    for (size_t i = 0; i < n; i++) {
        power += (double)want[i] * (double)want[i];
        error += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
    }
    double typical = sqrt(power / (double)n);
    for (size_t i = 0; !far && i < n; i++)
        far = !(fabs((double)got[i] - (double)want[i]) <=
                0.06 * typical + 0.03 * fabs((double)want[i]));
    float relative = far && !(error >= 0) ? INFINITY : (float)sqrt(error / (power > 0 ? power : 1));
    if (!(relative <= v->error)) v->error = relative;
    v->failed |= far || !(relative < MAX_ERROR);
}

/* Families that must be on for a test: gemv_m1 is used only if the GEMVs of FP8 and int4 are on. */
static uint64_t families_on(enum gpu_family family)
{
    uint64_t on = UINT64_C(1) << family;
    if (family == FAMILY_GEMV_M1)
        on |= UINT64_C(1) << FAMILY_GEMV_FP8 | UINT64_C(1) << FAMILY_GEMV_INT4;
    return on;
}

bool selftest_begin(struct selftest *t, enum gpu_family family)
{
    if (!(t->todo >> family & 1) || t->c->error.code != EY_OK || t->out_of_memory) return false;
    t->c->failed_families = ~(families_on(family) | t->helping);
    memset(t->c->launched, 0, sizeof(t->c->launched));
    return true;
}

/* Prefill attention has the same kernels for both types of KV cache, in the BF16 families. */
static bool family_was_launched(const struct cuda *c, enum gpu_family family)
{
    const enum gpu_family kernels = family == FAMILY_ATTENTION_64_FP8    ? FAMILY_ATTENTION_64
                                    : family == FAMILY_ATTENTION_128_FP8 ? FAMILY_ATTENTION_128
                                                                         : family;
    for (int i = 1; i < GPU_KERNELS; i++)
        if (c->launched[i] && gpu_kernel_info((enum gpu_kernel)i)->family == kernels) return true;
    return false;
}

bool selftest_end(struct selftest *t, enum gpu_family family)
{
    struct selftest_result *v = &t->report->kernel[family];
    bool was_launched = family_was_launched(t->c, family);
    t->c->failed_families = UINT64_MAX;
    if (t->out_of_memory) return true;
    cuda_check_call(t->c, t->c->driver.stream_sync(t->c->stream), v->name);
    v->was_run = true;
    if (t->c->error.code == EY_OK && was_launched) return !v->failed || v->fallback;
    v->failed = true;
    v->error = INFINITY;
    if (t->c->driver.stream_sync(t->c->stream) != CUDA_SUCCESS) return false;
    t->c->error = (ey_err){0}; /* only a refused launch: continue */
    return v->fallback != NULL;
}

void selftest_finish(struct selftest *t, enum selftest_side side)
{
    ey_err e;
    if (!t->side[side]->ops->compute->finish(t->side[side], &e)) t->c->error = e;
}

void selftest_spoil(struct selftest *t, dev p, size_t bytes)
{
    cuda_check_call(t->c,
                    t->c->driver.set_bytes((CUdeviceptr)(uintptr_t)p, 0xff, bytes, t->c->stream),
                    "the self-test");
}

/* Spoils the scratch that does not outlive a step. */
void selftest_spoil_scratch(struct selftest *t)
{
    static const enum cuda_scratch spoiled[] = {
        SCRATCH_NORMED,      SCRATCH_WIDE,          SCRATCH_RAW,         SCRATCH_PARTIAL,
        SCRATCH_TOPK_PART,   SCRATCH_TOPK_PART_SUM, SCRATCH_STEP_OUTPUT, SCRATCH_X_FP8,
        SCRATCH_X_FP8_SCALE, SCRATCH_ARRANGED,      SCRATCH_PARTS,       SCRATCH_X_SCALE};
    const struct selftest_buffers *b = &t->buffers[ON_GPU];
    const size_t width = SELFTEST_WIDTH * sizeof(bf16);
    size_t bytes[SCRATCH_BUFFERS];
    cuda_scratch_sizes(bytes, &t->c->limits);
    for (size_t i = 0; i < sizeof(spoiled) / sizeof(spoiled[0]); i++)
        selftest_spoil(t, t->c->scratch[spoiled[i]], bytes[spoiled[i]]);
    selftest_spoil(t, b->out, SELFTEST_MOST_ROWS * width);
    selftest_spoil(t, b->q, SELFTEST_MOST_ROWS * width);
    selftest_spoil(t, b->logits, 2 * SELFTEST_VOCABULARY * sizeof(float));
}

/* ---- all ---- */

static uint64_t families_to_test(const struct selftest_report *report)
{
    uint64_t todo = 0;
    for (int i = 0; i < report->n; i++)
        if (!report->kernel[i].was_run && !report->kernel[i].absent) todo |= UINT64_C(1) << i;
    return todo;
}

/* Runs the parts in order of dependence; a part that ends early leaves the rest untested. */
static void selftest_parts(struct selftest *t)
{
    if (!selftest_basic_matmuls(t) || !selftest_rows(t) || !selftest_fast_matmuls(t)) return;
    for (int i = FAMILY_GEMM_BF16_256x128; i < GPU_FAMILIES; i++)
        if (t->report->kernel[i].was_run && !t->report->kernel[i].failed)
            t->helping |= UINT64_C(1) << i; /* many rows would take long with matmul_fallback */
    if (selftest_vision_attention(t)) selftest_text_attention(t);
}

static void release_reference(struct selftest *t)
{
    struct backend *be = t->side[ON_REFERENCE];
    struct selftest_buffers *b = &t->buffers[ON_REFERENCE];
    const dev all[] = {b->x, b->in, b->out, b->q, b->rope, b->features, b->logits, b->kv.data};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i]) be->ops->memory->release(be, all[i]);
}

/* Fails if the GPU stopped working, or without memory. */
static bool selftest_run_on(struct selftest *t, ey_err *e)
{
    struct selftest_result *packing = &t->report->kernel[FAMILY_MATMUL_FALLBACK];
    ey_err why = {0};
    if (!selftest_open_model(t, &why)) {
        if (t->out_of_memory || why.code == EY_NO_MEMORY) return ey_fail_as(e, &why);
        packing->was_run = packing->failed = true; /* nothing else was launched before it */
        packing->error = INFINITY;
        return t->c->driver.stream_sync(t->c->stream) == CUDA_SUCCESS || ey_fail_as(e, &why);
    }
    selftest_parts(t);
    if (t->out_of_memory) return ey_fail_memory(e, "the self-test of the kernels", t->host.used);
    if (t->c->driver.stream_sync(t->c->stream) == CUDA_SUCCESS) return true;
    return ey_fail_as(e, &t->c->error);
}

/* Returns a second backend on the same GPU and kernels, with no memory taken. */
static struct cuda *open_beside(const struct cuda *c)
{
    struct cuda *own = malloc(sizeof(*own));
    if (!own) return NULL;
    *own = (struct cuda){.base = c->base,
                         .driver = c->driver,
                         .pool = c->pool,
                         .device = c->device,
                         .context = c->context,
                         .stream = c->stream,
                         .sm_count = c->sm_count,
                         .capability = c->capability,
                         .sm_shared = c->sm_shared,
                         .has_gemm_sm90 = c->has_gemm_sm90,
                         .has_small_sm90 = c->has_small_sm90,
                         .has_vision_sm90 = c->has_vision_sm90,
                         .has_gemm_w8a8 = c->has_gemm_w8a8,
                         .sees_pinned = c->sees_pinned,
                         .dependent_launch = c->dependent_launch,
                         .failed_families = UINT64_MAX,
                         .eager = true};
    memcpy(own->function, c->function, sizeof(own->function));
    memcpy(own->upload_buffer, c->upload_buffer, sizeof(own->upload_buffer));
    memcpy(own->upload_done, c->upload_done, sizeof(own->upload_done));
    return own;
}

bool cuda_selftest_run(struct cuda *c, struct backend *reference, struct selftest_report *report,
                       ey_err *e)
{
    struct selftest *t = calloc(1, sizeof(*t));
    struct cuda *own = open_beside(c);
    bool ok = t && own;
    if (ok) {
        *t = (struct selftest){.c = own,
                               .side = {&own->base, reference},
                               .random = 1,
                               .report = report,
                               .todo = families_to_test(report)};
        ok = selftest_run_on(t, e);
        release_reference(t);
        cuda_release_memory(own);
        arena_free(&t->host);
    } else {
        ey_fail_memory(e, "the self-test of the kernels", sizeof(*t) + sizeof(*own));
    }
    free(own);
    free(t);
    return ok;
}
