/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates what the plan says, once, and lays the buffers out in it. */
#include "engine/engine_internal.h"

/* ---- on the device ---- */

static bool alloc(const ey_engine *engine, struct backend *be, dev *out, enum plan_row row,
                  ey_err *e)
{
    *out = be->ops->alloc(be, engine->plan.bytes[row], e);
    return *out != NULL;
}

/* Buffers of `n` elements each, one after the other. */
static void carve(struct backend *be, dev memory, const size_t *elements, const enum element *kind,
                  dev *const *out, int n)
{
    for (int i = 0; i < n; i++) {
        *out[i] = memory;
        memory = be->ops->at(be, memory, kind[i], elements[i]);
    }
}

static void carve_step(ey_engine *engine, struct backend *be, dev memory, struct step_buffers *b)
{
    size_t elements[STEP_BUFFERS];
    dev *const out[STEP_BUFFERS] = {[STEP_X] = &b->x,
                                    [STEP_Q] = &b->q,
                                    [STEP_O] = &b->o,
                                    [STEP_H] = &b->h,
                                    [STEP_ROPE] = &b->rope};
    plan_step_elements(elements, &engine->model.text, b->max_rows);
    carve(be, memory, elements, plan_step_kind, out, STEP_BUFFERS);
}

static void carve_tower(ey_engine *engine, struct workspace *ws, dev memory)
{
    size_t elements[TOWER_BUFFERS];
    dev *const out[TOWER_BUFFERS] = {
        [TOWER_X] = &ws->vision_x,       [TOWER_QKV] = &ws->vision_qkv,
        [TOWER_O] = &ws->vision_o,       [TOWER_H] = &ws->vision_h,
        [TOWER_ROPE] = &ws->vision_rope, [TOWER_FEATURES] = &ws->vision_features};
    ws->max_rows = engine->plan.tower_rows;
    ws->max_patches = engine->plan.max_patches;
    plan_tower_elements(elements, &engine->model.vision, ws->max_rows, ws->max_patches,
                        plan_features_cross(&engine->plan));
    carve(engine->tower.be, memory, elements, plan_tower_kind, out, TOWER_BUFFERS);
}

/* On one device tower and chunk lie over each other: they never run at the same time. */
static bool open_tower(ey_engine *engine, ey_err *e)
{
    struct backend *be = engine->tower.be;
    if (!plan_tower_beside(&engine->plan))
        return carve_tower(engine, &engine->ws, engine->shared_memory), true;
    if (!alloc(engine, be, &engine->tower_memory, PLAN_TOWER, e)) return false;
    carve_tower(engine, &engine->cpu_ws, engine->tower_memory);
    return true;
}

/* What runs on the CPU beside a card. */
static bool open_beside(ey_engine *engine, ey_err *e)
{
    const struct plan *p = &engine->plan;
    struct first_layers *first = &engine->first;
    const bool layers = p->first_layers > 0;
    if ((layers || plan_tower_beside(p)) &&
        !engine->cpu->ops->reserve(engine->cpu, &p->cpu_limits, e))
        return false;
    if (!layers) return true;
    *first = (struct first_layers){.be = engine->cpu,
                                   .n = p->first_layers,
                                   .buffers = {.max_rows = p->limits.max_rows},
                                   .kv = {.shape = p->first_kv}};
    if (!alloc(engine, engine->cpu, &first->kv.data, PLAN_FIRST_KV, e) ||
        !alloc(engine, engine->cpu, &engine->first_memory, PLAN_FIRST, e))
        return false;
    carve_step(engine, engine->cpu, engine->first_memory, &first->buffers);
    engine->ws.first = first;
    return true;
}

static bool open_workspace(ey_engine *engine, ey_err *e)
{
    struct workspace *ws = &engine->ws;
    const struct plan *p = &engine->plan;
    struct backend *features = engine->tower.decoder;
    ws->chunk.max_rows = p->max_rows;
    ws->step.max_rows = p->step_rows;
    ws->feature_rows = p->feature_rows;
    if (!alloc(engine, engine->be, &engine->step_memory, PLAN_STEP, e) ||
        !alloc(engine, engine->be, &engine->shared_memory, PLAN_SHARED, e) ||
        !alloc(engine, features, &engine->feature_memory, PLAN_IMAGES, e) ||
        !open_beside(engine, e) || !open_tower(engine, e))
        return false;
    carve_step(engine, engine->be, engine->step_memory, &ws->step);
    carve_step(engine, engine->be, engine->shared_memory, &ws->chunk);
    size_t level = (size_t)p->feature_rows * (size_t)engine->model.text.hidden;
    for (int i = 0; i <= engine->model.vision.n_deepstack; i++)
        ws->features[i] = features->ops->at(features, engine->feature_memory, ELEMENT_FEATURE,
                                            (size_t)i * level);
    return true;
}

static bool open_device(ey_engine *engine, ey_err *e)
{
    dev logits = NULL;
    engine->kv.shape = engine->plan.kv;
    engine->kv_block_bytes = (engine->plan.bytes[PLAN_KV] + engine->plan.bytes[PLAN_FIRST_KV]) /
                             (uint64_t)engine->plan.kv.n_blocks;
    bool ok = engine->be->ops->reserve(engine->be, &engine->plan.limits, e) &&
              alloc(engine, engine->be, &engine->kv.data, PLAN_KV, e) &&
              open_workspace(engine, e) && alloc(engine, engine->be, &logits, PLAN_LOGITS, e);
    engine->logits = logits;
    if (engine->model.head.data == engine->model.embed.data)
        engine->model.head = engine->model.embed; /* loading may end with another order of it */
    return ok;
}

/* ---- on the host ---- */

static bool open_batch(ey_engine *engine, ey_err *e)
{
    struct host_buffers *h = &engine->host;
    struct arena *a = &engine->arena;
    size_t seqs = (size_t)engine->max_num_seqs, rows = (size_t)engine->plan.limits.max_rows;
    h->pixels = arena_array(a, rows,
                            sizeof(float) * (size_t)vision_patch_width(&engine->model.vision));
    h->patch_positions = arena_array(a, rows, 3 * sizeof(int32_t));
    h->logits = arena_array(a, (size_t)engine->model.text.vocabulary, sizeof(float));
    h->normed = arena_array(a, (size_t)engine->model.text.hidden, sizeof(float));
    h->exact_norm = arena_array(a, (size_t)engine->model.text.hidden, sizeof(float));
    h->token = arena_array(a, rows, sizeof(int32_t));
    h->feature = arena_array(a, rows, sizeof(int32_t));
    h->seq = arena_array(a, rows, sizeof(int32_t));
    h->index = arena_array(a, rows, sizeof(int32_t));
    h->position = arena_array(a, rows, 3 * sizeof(int32_t));
    h->block_table = arena_array(a, seqs * (size_t)engine->max_blocks, sizeof(int32_t));
    h->out_rows = arena_array(a, seqs, sizeof(int32_t));
    engine->part = arena_array(a, seqs, sizeof(*engine->part));
    engine->ahead = arena_array(a, seqs, sizeof(*engine->ahead));
    engine->constrained = arena_array(a, seqs, sizeof(*engine->constrained));
    engine->running = arena_array(a, seqs, sizeof(*engine->running));
    return (h->pixels && h->patch_positions && h->logits && h->normed && h->exact_norm &&
            h->token && h->feature && h->seq && h->index && h->position && h->block_table &&
            h->out_rows && engine->part && engine->ahead && engine->constrained &&
            engine->running) ||
           ey_fail_memory(e, "host buffers", a->used);
}

static bool open_slots(ey_engine *engine, ey_err *e)
{
    int vocabulary = engine->model.text.vocabulary;
    engine->slot = arena_array(&engine->arena, (size_t)engine->max_num_seqs, sizeof(*engine->slot));
    bool ok = engine->slot && sampler_scratch_open(&engine->scratch, &engine->arena, vocabulary, e);
    for (int i = 0; ok && i < engine->max_num_seqs; i++) {
        engine->slot[i].blocks = arena_array(&engine->arena, (size_t)engine->max_blocks,
                                             sizeof(int32_t));
        ok = engine->slot[i].blocks && sampler_open(&engine->slot[i].sampler, &engine->scratch,
                                                    &engine->arena, vocabulary, e);
    }
    return ok || ey_fail_memory(e, "requests", engine->arena.used);
}

bool engine_buffers_open(ey_engine *engine, ey_err *e)
{
    const struct plan *p = &engine->plan;
    return open_device(engine, e) && open_batch(engine, e) && open_slots(engine, e) &&
           kv_pool_open(&engine->blocks, &engine->arena, p->kv.n_blocks, e) &&
           image_cache_open(&engine->images, &engine->arena, p->feature_rows / FEATURE_BLOCK, e) &&
           hasher_open(&engine->hasher, e);
}

void engine_buffers_close(ey_engine *engine)
{
    dev all[] = {engine->step_memory, engine->shared_memory, engine->kv.data, engine->logits};
    dev beside[] = {engine->tower_memory, engine->first.kv.data, engine->first_memory};
    struct backend *features = engine->tower.decoder;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i]) engine->be->ops->release(engine->be, all[i]);
    for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++)
        if (beside[i]) engine->cpu->ops->release(engine->cpu, beside[i]);
    if (engine->feature_memory) features->ops->release(features, engine->feature_memory);
    hasher_close(&engine->hasher);
    arena_free(&engine->arena);
}
