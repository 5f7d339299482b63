/* SPDX-License-Identifier: Apache-2.0 */
/* The cpu backend: its memory and its operation tables. Weights stay in the checkpoint's map
 * until refine() copies them; an 8-bit head has memory of its own. */
#include "backend/cpu/cpu_backend.h"

#include <stdlib.h>
#include <string.h>

#include "tensor/bf12.h"
#include "backend/cpu/cpu_hugepages.h"
#include "backend/cpu/cpu_matmul.h"
#include "backend/host_ops.h"
#include "backend/cpu/cpu_roofline.h"
#include "base/checked.h"

enum { ALIGN = 64, SLACK = 1024 }; /* kernels read whole vectors beyond a buffer's last row */

/* Returns zeroed memory; its pages are allocated when they are first written. */
static void *zeroed(size_t bytes)
{
    size_t whole;
    if (!checked_add(bytes, ALIGN + SLACK, &whole)) return NULL;
    char *raw = calloc(1, whole);
    if (!raw) return NULL;
    char *p = raw + ALIGN -
              (uintptr_t)raw % ALIGN; /* at least 16 bytes ahead, since malloc aligns to 16 */
    memcpy(p - sizeof(raw), &raw, sizeof(raw));
    return p;
}

static void zeroed_free(void *p)
{
    char *raw;
    if (!p) return;
    memcpy(&raw, (char *)p - sizeof(raw), sizeof(raw));
    free(raw);
}

static size_t max_padded_width(const struct backend_limits *l)
{
    return cpu_padded((size_t)l->max_width);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Returns the bytes of a gemv() tile of packed rows. With two_pass a row of x takes two of them. */
static size_t gemv_scratch_bytes(const struct backend_limits *l)
{
    return CPU_GEMV_MAX_ROWS * max_padded_width(l) * sizeof(uint16_t);
}

static size_t thread_scratch_bytes(const struct cpu_kernels *k, const struct backend_limits *l)
{
    const struct matmul_kernels *const kernel_sets[] = {k->f32,    k->low_precision, k->fp8,
                                                        k->blocks, k->int4,          k->vision};
    size_t gemm = 0;
    for (size_t i = 0; i < sizeof(kernel_sets) / sizeof(kernel_sets[0]); i++)
        gemm = larger(
            gemm, kernel_sets[i] ? cpu_gemm_scratch_bytes(kernel_sets[i], max_padded_width(l)) : 0);
    size_t attend = larger(CPU_SHARED_TILES * sizeof(struct cpu_attention_scratch),
                           k->vision_attention ? k->vision_attention->scratch_bytes() : 0);
    return larger(larger(gemv_scratch_bytes(l), gemm), attend) + ALIGN;
}

static size_t cpu_packed_bytes(const struct backend_limits *l)
{
    return (size_t)l->max_rows * max_padded_width(l) * sizeof(float) + gemv_scratch_bytes(l);
}

static size_t cpu_scratch_bytes(const struct backend *be, const struct backend_limits *l)
{
    size_t rows = (l->reordered ? 3 : 2) * (size_t)l->max_rows + CPU_VECTORS;
    return rows * max_padded_width(l) * sizeof(float) + cpu_packed_bytes(l) +
           (size_t)pool_threads(((const struct cpu *)be)->pool) *
               thread_scratch_bytes(((const struct cpu *)be)->k, l);
}

static void cpu_release_scratch(struct cpu *c)
{
    void **all[] = {&c->packed, (void **)&c->rows[0], (void **)&c->rows[1],
                    (void **)&c->placed_rows, (void **)&c->scratch};
    for (int i = 0; i < CPU_VECTORS; i++) {
        zeroed_free(c->vectors[i]);
        c->vectors[i] = NULL;
    }
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        zeroed_free(*all[i]);
        *all[i] = NULL;
    }
}

static bool cpu_reserve(struct backend *be, const struct backend_limits *l, ey_err *e)
{
    struct cpu *c = cpu_of(be);
    cpu_release_scratch(c);
    c->limits = *l;
    c->stride = max_padded_width(l);
    c->scratch_size = (thread_scratch_bytes(c->k, l) + ALIGN - 1) / ALIGN * ALIGN;
    size_t block = (size_t)l->max_rows * c->stride * sizeof(float);
    bool ok = (c->packed = zeroed(cpu_packed_bytes(l))) != NULL;
    for (int i = 0; i < 2; i++)
        ok = (c->rows[i] = zeroed(block)) && ok;
    if (l->reordered) ok = (c->placed_rows = zeroed(block)) && ok;
    for (int i = 0; i < CPU_VECTORS; i++)
        ok = (c->vectors[i] = zeroed(c->stride * sizeof(float))) && ok;
    ok = (c->scratch = zeroed((size_t)pool_threads(c->pool) * c->scratch_size)) && ok;
    return ok || ey_fail_memory(e, "scratch space", cpu_scratch_bytes(be, l));
}

static void cpu_destroy(struct backend *be)
{
    cpu_release_scratch(cpu_of(be));
    zeroed_free(cpu_of(be)->int8_lm_head);
    cpu_hugepages_close(cpu_of(be));
    arena_free(&cpu_of(be)->placed);
    free(be);
}

static dev cpu_alloc(struct backend *be, size_t bytes, ey_err *e)
{
    (void)be;
    dev p = zeroed(bytes);
    if (!p) ey_fail_memory(e, "activations", bytes);
    return p;
}

static void cpu_release(struct backend *be, dev p)
{
    (void)be;
    zeroed_free(p);
}

const float *cpu_vector(struct cpu *c, int slot, const struct placed *w)
{
    c->k->rows->dequantize_row(c->vectors[slot], &cpu_weight_of(w)->m, 0);
    return c->vectors[slot];
}

static const char *cpu_detail(const struct backend *be)
{
    return ((const struct cpu *)be)->k->name;
}

static bool cpu_measure(struct backend *be, struct device_roofline *roofline, ey_err *e)
{
    struct cpu *c = cpu_of(be);
    return cpu_measure_roofline(c->pool, c->k->isa, c->k->low_precision || c->k->fp8, roofline, e);
}

static const struct compute_ops cpu_compute = {
    .finish = host_finish,
    .embed = cpu_embed,
    .rope_table = cpu_rope_table,
    .qkv = cpu_qkv,
    .attention = cpu_attention,
    .project_add = cpu_project_add,
    .gate_up = cpu_gate_up,
    .add_features = host_add_features,
    .lm_head = cpu_lm_head,
    .patch_embed = cpu_patch_embed,
    .vision_qkv = cpu_vision_qkv,
    .vision_attention = cpu_vision_attention,
    .vision_mlp = cpu_vision_mlp,
    .vision_project_add = cpu_vision_project_add,
    .merge = cpu_merge,
};

static const struct memory_ops cpu_memory = {
    .element_size = {sizeof(float), sizeof(float), sizeof(float), sizeof(float)},
    .scratch_bytes = cpu_scratch_bytes,
    .reserve = cpu_reserve,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .kv_bytes = cpu_kv_bytes,
    .weight_bytes = cpu_weight_bytes,
    .place = cpu_place,
    .refine = cpu_refine,
    .read = host_read,
    .write = host_write,
    .read_logits = host_read_logits,
    .at = host_at,
};

static const struct backend_ops cpu_ops = {
    .name = "cpu",
    .detail = cpu_detail,
    .measure_roofline = cpu_measure,
    .destroy = cpu_destroy,
    .compute = &cpu_compute,
    .memory = &cpu_memory,
};

bool backend_cpu_create(struct backend **be, struct pool *pool, const char *mask, ey_err *e)
{
    struct cpu_isa most = mask ? cpu_isa_best() : cpu_fastest_isa();
    if (mask && !cpu_isa_by_name(mask, &most))
        return ey_fail(e, EY_BAD_REQUEST,
                       "unknown instruction set \"%s\"; use one of " CPU_MASK_NAMES, mask);
    struct cpu *c = calloc(1, sizeof(*c));
    if (!c) return ey_fail_memory(e, "the cpu backend", sizeof(*c));
    c->base.ops = &cpu_ops;
    c->pool = pool;
    c->k = cpu_kernels_for(cpu_isa_usable(most));
    *be = &c->base;
    return true;
}
