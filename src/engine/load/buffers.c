/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates the planned memory once and divides it into buffers. */
#include "engine/load/load.h"

/* ---- on the device ---- */

static bool alloc_plan_row(const struct plan *plan, struct backend *be, dev *out, enum plan_row row,
                           ey_err *e)
{
    *out = be->ops->memory->alloc(be, plan->bytes[row], e);
    return *out != NULL;
}

/* Lays out buffers one after the other in `memory`: elements[i] elements of kind[i] each. */
static void lay_out_buffers(struct backend *be, dev memory, const size_t *elements,
                            const enum element *kind, dev *const *out, int n)
{
    for (int i = 0; i < n; i++) {
        *out[i] = memory;
        memory = be->ops->memory->at(be, memory, kind[i], elements[i]);
    }
}

static void lay_out_step_buffers(const struct text_shape *shape, struct backend *be, dev memory,
                                 struct step_buffers *b)
{
    size_t elements[STEP_BUFFERS];
    dev *const out[STEP_BUFFERS] = {[STEP_X] = &b->x,
                                    [STEP_Q] = &b->q,
                                    [STEP_O] = &b->o,
                                    [STEP_H] = &b->h,
                                    [STEP_ROPE] = &b->rope};
    plan_step_elements(elements, shape, b->max_rows);
    lay_out_buffers(be, memory, elements, plan_step_element, out, STEP_BUFFERS);
}

static void lay_out_vision_buffers(ey_engine *engine, struct workspace *ws, dev memory)
{
    size_t elements[VISION_BUFFERS];
    dev *const out[VISION_BUFFERS] = {
        [VISION_X] = &ws->vision_x,       [VISION_QKV] = &ws->vision_qkv,
        [VISION_O] = &ws->vision_o,       [VISION_H] = &ws->vision_h,
        [VISION_ROPE] = &ws->vision_rope, [VISION_FEATURES] = &ws->vision_features};
    ws->max_rows = engine->buffers.plan.vision_rows;
    ws->max_patches = engine->buffers.plan.max_patches;
    plan_vision_elements(elements, &engine->devices.model.vision, ws->max_rows, ws->max_patches,
                         plan_features_cross_devices(&engine->buffers.plan));
    lay_out_buffers(engine->devices.vision_backends.be, memory, elements, plan_vision_element, out,
                    VISION_BUFFERS);
}

/* On one device, the buffers of the vision encoder and of a prefill chunk overlap: they never run
 * at the same time. */
static bool open_vision_workspace(ey_engine *engine, ey_err *e)
{
    struct backend *be = engine->devices.vision_backends.be;
    if (!plan_vision_on_cpu(&engine->buffers.plan)) {
        lay_out_vision_buffers(engine, &engine->buffers.ws, engine->buffers.shared_memory);
        return true;
    }
    if (!alloc_plan_row(&engine->buffers.plan, be, &engine->buffers.vision_memory,
                        PLAN_CPU_VISION_WORKSPACE, e))
        return false;
    lay_out_vision_buffers(engine, &engine->buffers.cpu_vision_ws, engine->buffers.vision_memory);
    return true;
}

/* If the model is divided between a GPU and the CPU, opens the CPU's layers, and scratch memory for
 * them or for the vision encoder if that runs on the CPU. */
static bool open_cpu_range(ey_engine *engine, ey_err *e)
{
    const struct plan *p = &engine->buffers.plan;
    struct backend *cpu = engine->devices.cpu;
    const bool layers = p->cpu_layers > 0;
    if ((layers || plan_vision_on_cpu(p)) && !cpu->ops->memory->reserve(cpu, &p->cpu_limits, e))
        return false;
    if (!layers) return true;
    struct layer_range *range = &engine->buffers.ws.range[engine->buffers.ws.n_ranges++];
    *range = (struct layer_range){.be = cpu,
                                  .end = p->cpu_layers,
                                  .step = {.max_rows = p->limits.max_rows},
                                  .kv = {.shape = p->cpu_kv}};
    if (!alloc_plan_row(p, cpu, &range->kv.data, PLAN_CPU_KV, e) ||
        !alloc_plan_row(p, cpu, &engine->buffers.cpu_layers_memory, PLAN_CPU_WORKSPACE, e))
        return false;
    lay_out_step_buffers(&engine->devices.model.text, cpu, engine->buffers.cpu_layers_memory,
                         &range->step);
    return true;
}

static bool open_device_range(ey_engine *engine, ey_err *e)
{
    const struct plan *p = &engine->buffers.plan;
    struct backend *be = engine->devices.be;
    struct engine_buffers *b = &engine->buffers;
    struct layer_range *range = &b->ws.range[b->ws.n_ranges++];
    *range = (struct layer_range){.be = be,
                                  .first = p->cpu_layers,
                                  .end = p->n_layers,
                                  .step = {.max_rows = p->decode_rows},
                                  .chunk = {.max_rows = p->max_rows},
                                  .kv = {.shape = p->kv}};
    if (!alloc_plan_row(p, be, &range->kv.data, PLAN_KV, e) ||
        !alloc_plan_row(p, be, &b->step_memory, PLAN_DECODE_WORKSPACE, e) ||
        !alloc_plan_row(p, be, &b->shared_memory, PLAN_SHARED_WORKSPACE, e))
        return false;
    lay_out_step_buffers(&engine->devices.model.text, be, b->step_memory, &range->step);
    lay_out_step_buffers(&engine->devices.model.text, be, b->shared_memory, &range->chunk);
    return true;
}

/* Allocates features on the first range's device, which has all layers that take them (fit.c). */
static bool open_features(ey_engine *engine, ey_err *e)
{
    struct workspace *ws = &engine->buffers.ws;
    struct backend *be = ws->range[0].be;
    ws->feature_rows = engine->buffers.plan.feature_rows;
    if (!alloc_plan_row(&engine->buffers.plan, be, &engine->buffers.feature_memory,
                        PLAN_IMAGE_CACHE, e))
        return false;
    const size_t level = (size_t)ws->feature_rows * (size_t)engine->devices.model.text.hidden;
    for (int i = 0; i <= engine->devices.model.vision.n_deepstack; i++)
        ws->features[i] = (struct feature_level){
            be, be->ops->memory->at(be, engine->buffers.feature_memory, ELEMENT_FEATURE,
                                    (size_t)i * level)};
    return true;
}

static bool open_device_buffers(ey_engine *engine, ey_err *e)
{
    struct engine_buffers *b = &engine->buffers;
    struct backend *be = engine->devices.be;
    dev logits = NULL;
    b->kv_block_bytes = (b->plan.bytes[PLAN_KV] + b->plan.bytes[PLAN_CPU_KV]) /
                        (uint64_t)b->plan.kv.n_blocks;
    bool ok = be->ops->memory->reserve(be, &b->plan.limits, e) && open_cpu_range(engine, e) &&
              open_device_range(engine, e) && open_features(engine, e) &&
              open_vision_workspace(engine, e) &&
              alloc_plan_row(&b->plan, be, &logits, PLAN_LOGITS, e);
    b->logits = logits;
    if (engine->devices.model.head.data == engine->devices.model.embed.data)
        engine->devices.model.head = engine->devices.model.embed; /* loading may have repacked it */
    return ok;
}

/* ---- on the host ---- */

static bool open_host_buffers(ey_engine *engine, ey_err *e)
{
    struct host_buffers *h = &engine->buffers.host;
    struct arena *a = &engine->buffers.arena;
    size_t seqs = (size_t)engine->limits.max_num_seqs,
           rows = (size_t)engine->buffers.plan.limits.max_rows;
    h->pixels = arena_array(
        a, rows, sizeof(float) * (size_t)vision_patch_width(&engine->devices.model.vision));
    h->patch_positions = arena_array(a, rows, 3 * sizeof(int32_t));
    h->logits = arena_array(a, (size_t)engine->devices.model.text.vocab_size, sizeof(float));
    h->normed = arena_array(a, (size_t)engine->devices.model.text.hidden, sizeof(float));
    h->rescore_norm = arena_array(a, (size_t)engine->devices.model.text.hidden, sizeof(float));
    h->score_weights = arena_array(a, (size_t)engine->devices.model.text.hidden, sizeof(float));
    h->token = arena_array(a, rows, sizeof(int32_t));
    h->feature = arena_array(a, rows, sizeof(int32_t));
    h->row_seq = arena_array(a, rows, sizeof(int32_t));
    h->row_slot = arena_array(a, rows, sizeof(int32_t));
    h->seq = arena_array(a, seqs, sizeof(*h->seq));
    h->position = arena_array(a, rows, 3 * sizeof(int32_t));
    h->block_table = arena_array(a, seqs * (size_t)engine->limits.max_blocks, sizeof(int32_t));
    h->logits_row = arena_array(a, (size_t)engine->buffers.plan.max_logits, sizeof(int32_t));
    engine->scheduler.chunk = arena_array(a, seqs, sizeof(*engine->scheduler.chunk));
    engine->scheduler.previous_chunk = arena_array(a, seqs,
                                                   sizeof(*engine->scheduler.previous_chunk));
    engine->scheduler.matchers = arena_array(a, seqs, sizeof(*engine->scheduler.matchers));
    engine->scheduler.running = arena_array(a, seqs, sizeof(*engine->scheduler.running));
    return (h->pixels && h->patch_positions && h->logits && h->normed && h->rescore_norm &&
            h->score_weights && h->token && h->feature && h->seq && h->row_seq && h->row_slot &&
            h->position && h->block_table && h->logits_row && engine->scheduler.chunk &&
            engine->scheduler.previous_chunk && engine->scheduler.matchers &&
            engine->scheduler.running) ||
           ey_fail_memory(e, "host buffers", a->used);
}

static bool open_request_slots(ey_engine *engine, ey_err *e)
{
    int vocabulary = engine->devices.model.text.vocab_size;
    engine->scheduler.slot = arena_array(&engine->buffers.arena,
                                         (size_t)engine->limits.max_num_seqs,
                                         sizeof(*engine->scheduler.slot));
    bool ok = engine->scheduler.slot && sampler_scratch_open(&engine->scheduler.scratch,
                                                             &engine->buffers.arena, vocabulary, e);
    for (int i = 0; ok && i < engine->limits.max_num_seqs; i++) {
        engine->scheduler.slot[i].blocks = arena_array(
            &engine->buffers.arena, (size_t)engine->limits.max_blocks, sizeof(int32_t));
        ok = engine->scheduler.slot[i].blocks &&
             sampler_open(&engine->scheduler.slot[i].sampler, &engine->scheduler.scratch,
                          &engine->buffers.arena, vocabulary, e);
    }
    return ok || ey_fail_memory(e, "requests", engine->buffers.arena.used);
}

bool engine_buffers_open(ey_engine *engine, ey_err *e)
{
    const struct plan *p = &engine->buffers.plan;
    return open_device_buffers(engine, e) && open_host_buffers(engine, e) &&
           open_request_slots(engine, e) &&
           kv_pool_open(&engine->caches.blocks, &engine->buffers.arena, p->kv.n_blocks, e) &&
           image_cache_open(&engine->caches.images, &engine->buffers.arena,
                            p->feature_rows / FEATURE_BLOCK, e) &&
           hasher_open(&engine->caches.hasher, e);
}

static void release_all(struct backend *be, const dev *memory, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memory[i]) be->ops->memory->release(be, memory[i]);
}

void engine_buffers_close(ey_engine *engine)
{
    struct engine_buffers *b = &engine->buffers;
    const dev on_device[] = {b->step_memory, b->shared_memory, b->logits},
              on_cpu[] = {b->vision_memory, b->cpu_layers_memory};
    release_all(engine->devices.be, on_device, sizeof(on_device) / sizeof(on_device[0]));
    release_all(engine->devices.cpu, on_cpu, sizeof(on_cpu) / sizeof(on_cpu[0]));
    for (int i = 0; i < b->ws.n_ranges; i++)
        release_all(b->ws.range[i].be, &b->ws.range[i].kv.data, 1);
    if (b->feature_memory) release_all(b->ws.range[0].be, &b->feature_memory, 1);
    hasher_close(&engine->caches.hasher);
    arena_free(&b->arena);
}
