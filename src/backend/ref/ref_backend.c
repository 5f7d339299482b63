/* SPDX-License-Identifier: Apache-2.0 */
/* The reference backend: its memory and its operation tables. Buffers are host memory; weights stay
 * in the checkpoint's map. */
#include "backend/ref/ref_backend.h"

#include <stdlib.h>
#include <string.h>

#include "backend/host_ops.h"
#include "backend/cpu/cpu_roofline.h"
#include "base/checked.h"

enum { REF_ALIGN = 64 };

static float *ref_alloc_floats(size_t n)
{
    size_t bytes;
    if (!checked_mul(n ? n : 1, sizeof(float), &bytes) ||
        !checked_add(bytes, REF_ALIGN - 1, &bytes))
        return NULL;
    return aligned_alloc(REF_ALIGN, bytes - bytes % REF_ALIGN);
}

static void ref_release_scratch(struct ref *r)
{
    for (int i = 0; i < 3; i++) {
        free(r->rows[i]);
        r->rows[i] = NULL;
    }
    for (int i = 0; i < 2; i++) {
        free(r->vectors[i]);
        r->vectors[i] = NULL;
    }
    free(r->weights);
    r->weights = NULL;
    free(r->scores);
    r->scores = NULL;
}

static void ref_destroy(struct backend *be)
{
    ref_release_scratch(ref_of(be));
    arena_free(&ref_of(be)->placed);
    free(be);
}

static bool ref_place(struct backend *be, struct placed **out, const struct tensor *in,
                      enum weight_role role, enum placement placement, ey_err *e)
{
    struct tensor *w = arena_alloc(&ref_of(be)->placed, sizeof(*w));
    (void)role;
    (void)placement;
    if (!w) return ey_fail_memory(e, "a weight", sizeof(*w));
    *w = *in;
    *out = (struct placed *)w;
    return true;
}

static size_t ref_scratch_bytes(const struct backend *be, const struct backend_limits *l)
{
    size_t threads = (size_t)pool_threads(((const struct ref *)be)->pool);
    size_t rows = (3 * (size_t)l->max_rows + 2) * (size_t)l->max_width;
    size_t per_thread = REF_WEIGHT_ROWS * (size_t)l->max_width + (size_t)l->max_keys;
    return sizeof(float) * (rows + threads * per_thread);
}

static bool ref_supports_fp8_prompts(const struct backend *be, bool *slow, ey_err *why)
{
    (void)be;
    (void)slow;
    (void)why;
    return true; /* rounds as a GPU does, to show the effect on answers; it is not faster */
}

static bool ref_reserve(struct backend *be, const struct backend_limits *l, ey_err *e)
{
    struct ref *r = ref_of(be);
    size_t threads = (size_t)pool_threads(r->pool), width = (size_t)l->max_width;
    ref_release_scratch(r);
    r->limits = *l;
    bool ok = true;
    for (int i = 0; i < 3; i++)
        ok = (r->rows[i] = ref_alloc_floats((size_t)l->max_rows * width)) && ok;
    for (int i = 0; i < 2; i++)
        ok = (r->vectors[i] = ref_alloc_floats(width)) && ok;
    ok = (r->weights = ref_alloc_floats(threads * REF_WEIGHT_ROWS * width)) && ok;
    ok = (r->scores = ref_alloc_floats(threads * (size_t)l->max_keys)) && ok;
    return ok || ey_fail_memory(e, "scratch space", ref_scratch_bytes(be, l));
}

static dev ref_alloc(struct backend *be, size_t bytes, ey_err *e)
{
    (void)be;
    dev p = ref_alloc_floats(bytes / sizeof(float) + 1);
    if (!p) ey_fail_memory(e, "activations", bytes);
    return p;
}

static void ref_release(struct backend *be, dev p)
{
    (void)be;
    free(p);
}

static size_t ref_kv_bytes(const struct backend *be, const struct kv_shape *s)
{
    (void)be;
    return sizeof(float) * 2 * KV_BLOCK * (size_t)s->n_layers * (size_t)s->n_blocks *
           (size_t)s->n_kv_heads * (size_t)s->head_dim;
}

static const char *ref_detail(const struct backend *be)
{
    (void)be;
    return "plain C";
}

static bool ref_measure(struct backend *be, struct device_roofline *roofline, ey_err *e)
{
    return cpu_measure_roofline(ref_of(be)->pool,
                                cpu_isa_usable((struct cpu_isa){CPU_AVX512, true, false}), false,
                                roofline, e);
}

static const struct compute_ops ref_compute = {
    .finish = host_finish,
    .embed = ref_embed,
    .rope_table = ref_rope_table,
    .qkv = ref_qkv,
    .attention = ref_attention,
    .supports_fp8_prompts = ref_supports_fp8_prompts,
    .project_add = ref_project_add,
    .gate_up = ref_gate_up,
    .add_features = host_add_features,
    .lm_head = ref_lm_head,
    .patch_embed = ref_patch_embed,
    .vision_qkv = ref_vision_qkv,
    .vision_attention = ref_vision_attention,
    .vision_mlp = ref_vision_mlp,
    .vision_project_add = ref_vision_project_add,
    .merge = ref_merge,
};

static const struct memory_ops ref_memory = {
    .element_size = {sizeof(float), sizeof(float), sizeof(float), sizeof(float)},
    .scratch_bytes = ref_scratch_bytes,
    .reserve = ref_reserve,
    .alloc = ref_alloc,
    .release = ref_release,
    .kv_bytes = ref_kv_bytes,
    .weight_bytes = host_weight_bytes,
    .place = ref_place,
    .read = host_read,
    .write = host_write,
    .read_logits = host_read_logits,
    .at = host_at,
};

static const struct backend_ops ref_ops = {
    .name = "ref",
    .detail = ref_detail,
    .measure_roofline = ref_measure,
    .destroy = ref_destroy,
    .compute = &ref_compute,
    .memory = &ref_memory,
};

bool backend_ref_create(struct backend **be, struct pool *pool, ey_err *e)
{
    struct ref *r = calloc(1, sizeof(*r));
    if (!r) return ey_fail_memory(e, "the reference backend", sizeof(*r));
    r->base.ops = &ref_ops;
    r->pool = pool;
    *be = &r->base;
    return true;
}
