/* SPDX-License-Identifier: Apache-2.0 */
/* The cpu backend: its memory and its table of steps. Weights stay where the checkpoint's map has
 * them, but for a head of 8 bits. */
#include "backend/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

#include "backend/cpu/bf12.h"
#include "backend/cpu/cpu_multiply.h"
#include "backend/host.h"
#include "backend/machine.h"
#include "base/checked.h"

enum { ALIGN = 64, SLACK = 1024 }; /* kernels read whole vectors past a buffer's last row */

/* Zeroed memory; zero pages cost nothing until they are written. */
static void *zeroed(size_t bytes)
{
    size_t whole;
    if (!checked_add(bytes, ALIGN + SLACK, &whole)) return NULL;
    char *raw = calloc(1, whole);
    if (!raw) return NULL;
    char *p = raw + ALIGN - (uintptr_t)raw % ALIGN; /* at least 16 bytes on: malloc aligns to 16 */
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

static size_t padded_width(const struct backend_limits *l)
{
    return cpu_padded((size_t)l->max_width);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Rows for few(), a tile at most: remainders make two rows of one. */
static size_t few_bytes(const struct backend_limits *l)
{
    return CPU_X_MOST * padded_width(l) * sizeof(uint16_t);
}

static size_t thread_scratch(const struct cpu_kernels *k, const struct backend_limits *l)
{
    const struct products *const ways[] = {k->f32, k->narrow, k->fp8, k->vision};
    size_t blocks = 0;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        blocks = larger(blocks, ways[i] ? cpu_blocks_scratch(ways[i], padded_width(l)) : 0);
    size_t attend = larger(CPU_SHARED_TILES * sizeof(struct cpu_attend_scratch),
                           k->picture ? k->picture->room() : 0);
    return larger(larger(few_bytes(l), blocks), attend) + ALIGN;
}

static size_t packed_bytes(const struct backend_limits *l)
{
    return (size_t)l->max_rows * padded_width(l) * sizeof(float) + few_bytes(l);
}

static size_t scratch_bytes(const struct backend *be, const struct backend_limits *l)
{
    size_t rows = 2 * (size_t)l->max_rows + CPU_VECTORS;
    return rows * padded_width(l) * sizeof(float) + packed_bytes(l) +
           (size_t)pool_threads(((const struct cpu *)be)->pool) *
               thread_scratch(((const struct cpu *)be)->k, l);
}

static void release_scratch(struct cpu *c)
{
    void **all[] = {&c->packed, (void **)&c->rows[0], (void **)&c->rows[1], (void **)&c->scratch};
    for (int i = 0; i < CPU_VECTORS; i++) {
        zeroed_free(c->vectors[i]);
        c->vectors[i] = NULL;
    }
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        zeroed_free(*all[i]);
        *all[i] = NULL;
    }
}

static bool reserve(struct backend *be, const struct backend_limits *l, ey_err *e)
{
    struct cpu *c = cpu_of(be);
    release_scratch(c);
    c->limits = *l;
    c->stride = padded_width(l);
    c->scratch_size = (thread_scratch(c->k, l) + ALIGN - 1) / ALIGN * ALIGN;
    size_t block = (size_t)l->max_rows * c->stride * sizeof(float);
    bool ok = (c->packed = zeroed(packed_bytes(l))) != NULL;
    for (int i = 0; i < 2; i++)
        ok = (c->rows[i] = zeroed(block)) && ok;
    for (int i = 0; i < CPU_VECTORS; i++)
        ok = (c->vectors[i] = zeroed(c->stride * sizeof(float))) && ok;
    ok = (c->scratch = zeroed((size_t)pool_threads(c->pool) * c->scratch_size)) && ok;
    return ok || ey_fail_memory(e, "scratch space", scratch_bytes(be, l));
}

static void destroy(struct backend *be)
{
    release_scratch(cpu_of(be));
    zeroed_free(cpu_of(be)->eight_bit);
    cpu_forget_known(cpu_of(be));
    free(be);
}

static dev alloc_bytes(struct backend *be, size_t bytes, ey_err *e)
{
    (void)be;
    dev p = zeroed(bytes);
    if (!p) ey_fail_memory(e, "activations", bytes);
    return p;
}

static void release(struct backend *be, dev p)
{
    (void)be;
    zeroed_free(p);
}

const float *cpu_vector(struct cpu *c, int slot, const struct weight *w)
{
    c->k->decode(c->vectors[slot], w, 0);
    return c->vectors[slot];
}

static const char *detail(const struct backend *be)
{
    return ((const struct cpu *)be)->k->name;
}

static bool measure(struct backend *be, struct device_limits *limits, ey_err *e)
{
    struct cpu *c = cpu_of(be);
    return machine_measure(c->pool, c->k->level, c->k->narrow || c->k->fp8, limits, e);
}

static size_t form_bytes(const struct backend *be, const struct weight *w)
{
    const struct cpu_kernels *k = ((const struct cpu *)be)->k;
    const bool smaller = (k->narrow ? k->narrow : k->f32)->bf12 && bf12_takes(w) &&
                         bf12_bytes(w) <
                             (size_t)w->rows * weight_row_bytes(w); /* strips have heads */
    return smaller ? bf12_bytes(w) : 0;
}

static void write_form(const struct backend *be, void *to, const struct weight *w, size_t begin,
                       size_t end)
{
    (void)be;
    for (size_t strip = begin; strip < end; strip++)
        bf12_write(to, w, (int64_t)(strip * BF12_ROWS));
}

static const struct backend_ops ops = {
    .name = "cpu",
    .element_size = {sizeof(float), sizeof(float), sizeof(float), sizeof(float)},
    .detail = detail,
    .measure = measure,
    .destroy = destroy,
    .scratch_bytes = scratch_bytes,
    .reserve = reserve,
    .alloc = alloc_bytes,
    .release = release,
    .kv_bytes = cpu_kv_bytes,
    .weight_bytes = cpu_weight_bytes,
    .place = cpu_place,
    .bf12_bytes = form_bytes,
    .write_bf12 = write_form,
    .read = host_read,
    .write = host_write,
    .read_logits = host_read_logits,
    .finish = host_finish,
    .at = host_at,
    .embed = cpu_embed,
    .rope_table = cpu_rope_table,
    .qkv = cpu_qkv,
    .attend = cpu_attend,
    .project_add = cpu_project_add,
    .gate_up = cpu_gate_up,
    .add_features = host_add_features,
    .head = cpu_head,
    .patch_embed = cpu_patch_embed,
    .vision_qkv = cpu_vision_qkv,
    .vision_attend = cpu_vision_attend,
    .vision_mlp = cpu_vision_mlp,
    .vision_project_add = cpu_vision_project_add,
    .merge = cpu_merge,
};

bool backend_cpu_create(struct backend **be, struct pool *pool, const char *mask, ey_err *e)
{
    enum cpu_level most = mask ? CPU_LEVELS - 1 : machine_best_level();
    if (mask && !cpu_level_by_name(mask, &most))
        return ey_fail(e, EY_BAD_REQUEST,
                       "there is no instruction set \"%s\"; use generic, avx2, avxvnni, "
                       "avx512vbmi, avx512 or amx",
                       mask);
    struct cpu *c = calloc(1, sizeof(*c));
    if (!c) return ey_fail_memory(e, "the cpu backend", sizeof(*c));
    c->base.ops = &ops;
    c->pool = pool;
    c->k = cpu_kernels_for(cpu_level_usable(most));
    *be = &c->base;
    return true;
}
