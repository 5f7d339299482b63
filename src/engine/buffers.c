/* Every buffer of an engine, sized from the model's shape and the context before anything is allocated, then
 * allocated once. */
#include "base/memory.h"
#include "engine/engine_internal.h"

enum { CHUNK_ROWS = 512 }; /* rows of one prefill chunk and of one vision tile */

static int max_of(const int *values, int n)
{
    int max = values[0];
    for (int i = 1; i < n; i++) max = values[i] > max ? values[i] : max;
    return max;
}

int engine_max_visual(const ey_engine *engine)
{
    return engine->max_model_len / 2;
}

static struct backend_limits limits_of(const ey_engine *engine)
{
    const struct text_shape *t = &engine->model.text;
    const struct vision_shape *v = &engine->model.vision;
    int wide = vision_group(v) * v->hidden;
    const int widths[] = {t->hidden, text_q_width(t), 2 * text_kv_width(t), t->mlp, t->head_dim, 3 * v->hidden,
                          v->mlp, v->hidden, v->out_hidden, wide, vision_patch_width(v)};
    return (struct backend_limits){
        .max_rows = engine->ws.max_rows,
        .max_keys = engine->ws.max_patches > engine->max_model_len ? engine->ws.max_patches : engine->max_model_len,
        .max_patches = engine->ws.max_patches,
        .max_width = max_of(widths, (int)(sizeof(widths) / sizeof(widths[0]))),
    };
}

static bool alloc_elements(ey_engine *engine, dev *out, int rows, int width, ey_err *e)
{
    size_t bytes = (size_t)rows * (size_t)width * engine->be->ops->element_size;
    *out = engine->be->ops->alloc(engine->be, bytes, e);
    engine->workspace_bytes += bytes;
    return *out != NULL;
}

static bool open_workspace(ey_engine *engine, ey_err *e)
{
    struct workspace *ws = &engine->ws;
    const struct text_shape *t = &engine->model.text;
    const struct vision_shape *v = &engine->model.vision;
    bool ok = alloc_elements(engine, &ws->x, ws->max_rows, t->hidden, e) &&
              alloc_elements(engine, &ws->q, ws->max_rows, text_q_width(t), e) &&
              alloc_elements(engine, &ws->o, ws->max_rows, text_q_width(t), e) &&
              alloc_elements(engine, &ws->h, ws->max_rows, t->mlp, e) &&
              alloc_elements(engine, &ws->rope, ws->max_rows, t->head_dim, e) &&
              alloc_elements(engine, &ws->vision_x, ws->max_patches, v->hidden, e) &&
              alloc_elements(engine, &ws->vision_qkv, ws->max_patches, 3 * v->hidden, e) &&
              alloc_elements(engine, &ws->vision_o, ws->max_rows, v->hidden, e) &&
              alloc_elements(engine, &ws->vision_h, ws->max_rows, v->mlp, e) &&
              alloc_elements(engine, &ws->vision_rope, ws->max_patches, v->head_dim, e);
    for (int i = 0; ok && i <= v->n_deepstack; i++) ok = alloc_elements(engine, &ws->features[i], ws->max_visual, t->hidden, e);
    return ok;
}

static bool open_kv(ey_engine *engine, ey_err *e)
{
    const struct text_shape *t = &engine->model.text;
    engine->kv.shape = (struct kv_shape){t->n_layers, t->n_kv_heads, t->head_dim, (engine->max_model_len + KV_BLOCK - 1) / KV_BLOCK};
    engine->kv_bytes = engine->be->ops->kv_bytes(engine->be, &engine->kv.shape);
    engine->kv.data = engine->be->ops->alloc(engine->be, engine->kv_bytes, e);
    return engine->kv.data != NULL;
}

static bool open_host(ey_engine *engine, ey_err *e)
{
    struct host_buffers *h = &engine->host;
    struct arena *a = &engine->arena;
    size_t patches = (size_t)engine->ws.max_patches, length = (size_t)engine->max_model_len, blocks = (size_t)engine->kv.shape.n_blocks;
    h->pixels = arena_array(a, patches, sizeof(float) * (size_t)vision_patch_width(&engine->model.vision));
    h->patch_positions = arena_array(a, patches, 3 * sizeof(int32_t));
    h->logits = arena_array(a, (size_t)engine->model.text.vocabulary, sizeof(float));
    h->token = arena_array(a, length, sizeof(int32_t));
    h->feature = arena_array(a, length, sizeof(int32_t));
    h->seq = arena_array(a, length, sizeof(int32_t));
    h->index = arena_array(a, length, sizeof(int32_t));
    h->position = arena_array(a, length, 3 * sizeof(int32_t));
    h->picture = arena_array(a, length, sizeof(int16_t));
    h->block_table = arena_array(a, blocks, sizeof(int32_t));
    if (!h->pixels || !h->patch_positions || !h->logits || !h->token || !h->feature || !h->seq || !h->index || !h->position || !h->picture ||
        !h->block_table)
        return ey_fail_memory(e, "host buffers", a->used);
    for (size_t i = 0; i < blocks; i++) h->block_table[i] = (int32_t)i;
    return true;
}

/* Reserved memory takes no pages yet: what would not fit is refused now, not killed later. Almost all of it grows with
 * the context. */
static bool check_memory(const ey_engine *engine, ey_err *e)
{
    uint64_t needed = engine->workspace_bytes + engine->kv_bytes, left = memory_available();
    if (needed <= left) return true;
    int fits = (int)((double)engine->max_model_len * 0.95 * (double)left / (double)needed) / KV_BLOCK * KV_BLOCK;
    return ey_fail(e, EY_NO_MEMORY, "a context of %d tokens needs %llu MiB of memory beside the model's file, and %llu MiB are available; use --max-model-len %d",
                   engine->max_model_len, (unsigned long long)(needed >> 20), (unsigned long long)(left >> 20), fits < KV_BLOCK ? KV_BLOCK : fits);
}

static bool open_buffers(ey_engine *engine, ey_err *e)
{
    struct workspace *ws = &engine->ws;
    ws->max_visual = engine_max_visual(engine);
    ws->max_patches = (ws->max_visual * vision_group(&engine->model.vision) + KV_BLOCK - 1) / KV_BLOCK * KV_BLOCK;
    ws->max_rows = CHUNK_ROWS;
    struct backend_limits limits = limits_of(engine);
    engine->workspace_bytes = engine->be->ops->scratch_bytes(engine->be, &limits);
    if (!engine->be->ops->reserve(engine->be, &limits, e) || !open_kv(engine, e) || !open_workspace(engine, e) || !open_host(engine, e) ||
        !kv_record_open(&engine->record, &engine->arena, (size_t)engine->max_model_len, e) ||
        !sampler_open(&engine->sampler, &engine->arena, engine->model.text.vocabulary, e))
        return false;
    size_t logit_bytes = (size_t)engine->model.text.vocabulary * sizeof(float);
    engine->logits = engine->be->ops->alloc(engine->be, logit_bytes, e);
    engine->workspace_bytes += logit_bytes + engine->arena.used;
    return engine->logits != NULL;
}

bool engine_buffers_open(ey_engine *engine, ey_err *e)
{
    bool ok = open_buffers(engine, e);
    return check_memory(engine, e) && ok; /* its message says more than a failed allocation's */
}

void engine_buffers_close(ey_engine *engine)
{
    struct workspace *ws = &engine->ws;
    dev all[] = {ws->x, ws->q, ws->o, ws->h, ws->rope, ws->vision_x, ws->vision_qkv, ws->vision_o, ws->vision_h,
                 ws->vision_rope, engine->kv.data, engine->logits};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i]) engine->be->ops->release(engine->be, all[i]);
    for (int i = 0; i <= EY_MAX_DEEPSTACK; i++)
        if (ws->features[i]) engine->be->ops->release(engine->be, ws->features[i]);
    arena_free(&engine->arena);
}
