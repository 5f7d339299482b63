/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the sizes of everything in a plan. */
#include "plan/memory_plan.h"

#include "plan/plan_internal.h"

enum {
    DEFAULT_DECODE_ROWS = 64, /* decoding requests, and a few rows of a prompt */
    MIN_PROMPT_ROWS = 16,
    BUFFER_ALIGNMENT = 64,  /* elements */
    GPU_ALIGNMENT = 256,    /* bytes: alignment of allocations */
    BLOCK_TABLE_BYTES = 64, /* approximate size of one KV block's table entries */
};

/* Returns the most visual tokens of an image. On a GPU the default is what detail "high" needs,
 * because the vision encoder keeps keys and values of all patches. */
static int max_image_tokens_of(const struct plan_question *q, int max_visual)
{
    enum { CARD_PIXELS = 4194304 };
    const struct patch_spec *spec = &q->model->patch_spec;
    const uint64_t side = (uint64_t)(spec->patch * spec->merge), wanted = q->limits->max_pixels;
    uint64_t pixels = wanted > CARD_PIXELS ? wanted : CARD_PIXELS;
    if (!q->device->is_gpu || pixels / (side * side) >= (uint64_t)max_visual) return max_visual;
    return (int)(pixels / (side * side));
}

static void choose_image_limits(struct plan *p, const struct plan_question *q)
{
    const struct model *m = q->model;
    bool has_vision = m->vision.depth > 0;
    p->max_image_tokens = p->max_model_len / 2; /* the other half is for text */
    p->max_tokens_per_image = has_vision ? max_image_tokens_of(q, p->max_image_tokens) : 0;
    p->max_patches = plan_ceil_div(p->max_tokens_per_image * vision_group(&m->vision), KV_BLOCK) *
                     KV_BLOCK;
    /* the last block of each image may be partly empty */
    p->feature_rows = has_vision
                          ? (plan_ceil_div(p->max_image_tokens, FEATURE_BLOCK) + p->max_images) *
                                FEATURE_BLOCK
                          : FEATURE_BLOCK;
}

/* Returns the KV cache shape of the layers first .. end-1. */
static struct kv_shape kv_shape_of(const struct model *m, int first, int end, int n_blocks,
                                   bool fp8)
{
    return (struct kv_shape){model_layers_of_kind(m, LAYER_FULL_ATTENTION, first, end),
                             m->text.n_kv_heads, m->text.head_dim, n_blocks, fp8};
}

static void choose_sizes(struct plan *p, const struct plan_question *q)
{
    const struct text_shape *t = &q->model->text;
    choose_image_limits(p, q);
    p->max_blocks = plan_ceil_div(p->max_model_len, KV_BLOCK);
    p->vision_rows = plan_vision_on_cpu(p) && p->max_rows > CPU_MAX_ROWS ? CPU_MAX_ROWS
                                                                         : p->max_rows;
    p->decode_rows = p->max_num_seqs + MIN_PROMPT_ROWS > DEFAULT_DECODE_ROWS
                         ? p->max_num_seqs + MIN_PROMPT_ROWS
                         : DEFAULT_DECODE_ROWS;
    const int blocks = plan_ceil_div(p->kv_tokens, KV_BLOCK);
    p->kv = kv_shape_of(q->model, p->cpu_layers, t->n_layers, blocks, p->knobs.kv == PLAN_KV_FP8);
    p->cpu_kv = kv_shape_of(q->model, 0, p->cpu_layers, blocks, false);
}

static int max_int(const int *values, int n)
{
    int max = values[0];
    for (int i = 1; i < n; i++)
        max = values[i] > max ? values[i] : max;
    return max;
}

/* Returns the limits of a backend that runs the text model `t`, the vision encoder `v`, or both; a
 * shape without layers stands for a part that it does not run. */
static struct backend_limits backend_limits_of(const struct plan *p, int rows,
                                               const struct text_shape *t,
                                               const struct vision_shape *v)
{
    const int patches = v->depth ? p->max_patches : 0, tokens = t->n_layers ? p->max_model_len : 0;
    const int widths[] = {t->hidden,
                          text_q_width(t),
                          2 * text_kv_width(t),
                          t->mlp,
                          t->head_dim,
                          3 * v->hidden,
                          v->mlp,
                          v->hidden,
                          v->out_hidden,
                          vision_group(v) * v->hidden,
                          vision_patch_width(v)};
    return (struct backend_limits){
        .max_rows = rows,
        .max_keys = patches > tokens ? patches : tokens,
        .max_patches = patches,
        .max_seqs = p->max_num_seqs,
        .decode_rows = p->max_num_seqs,
        .max_logits = p->max_logits,
        .max_blocks = p->max_blocks,
        .text = *t,
        .vision = *v,
        .max_width = max_int(widths, (int)(sizeof(widths) / sizeof(widths[0]))),
    };
}

static void choose_backend_limits(struct plan *p, const struct plan_question *q)
{
    const struct model *m = q->model;
    static const struct text_shape no_text;
    static const struct vision_shape no_vision;
    const int rows = p->max_rows > p->decode_rows ? p->max_rows : p->decode_rows;
    const bool on_cpu = plan_vision_on_cpu(p);
    p->limits = backend_limits_of(p, rows, &m->text, on_cpu ? &no_vision : &m->vision);
    p->limits.int4 = m->int4;
    p->limits.reordered = m->reordered;
    p->limits.fp8_prompts = q->limits->fp8_prompts;
    if (!on_cpu && !p->cpu_layers) return;
    p->cpu_limits = backend_limits_of(p, p->cpu_layers ? rows : p->vision_rows,
                                      p->cpu_layers ? &m->text : &no_text,
                                      on_cpu ? &m->vision : &no_vision);
    p->cpu_limits.int4 = m->int4 && p->cpu_layers;
    p->cpu_limits.reordered = m->reordered && p->cpu_layers;
}

/* ---- workspaces ---- */

static size_t aligned_elements(int rows, int width)
{
    return ((size_t)rows * (size_t)width + BUFFER_ALIGNMENT - 1) / BUFFER_ALIGNMENT *
           BUFFER_ALIGNMENT;
}

void plan_step_elements(size_t out[STEP_BUFFERS], const struct text_shape *t, int rows)
{
    out[STEP_X] = aligned_elements(rows, t->hidden);
    out[STEP_Q] = out[STEP_O] = aligned_elements(rows, text_q_width(t));
    out[STEP_H] = aligned_elements(rows, t->mlp);
    out[STEP_ROPE] = aligned_elements(rows, t->head_dim);
}

void plan_vision_elements(size_t out[VISION_BUFFERS], const struct vision_shape *v, int rows,
                          int patches, bool cross_devices)
{
    out[VISION_X] = aligned_elements(patches, v->hidden);
    out[VISION_QKV] = aligned_elements(patches, 3 * v->hidden);
    out[VISION_O] = aligned_elements(rows, v->hidden);
    out[VISION_H] = aligned_elements(rows, v->mlp);
    out[VISION_ROPE] = aligned_elements(patches, v->head_dim);
    out[VISION_FEATURES] = cross_devices ? aligned_elements(FEATURE_BLOCK, v->out_hidden) : 0;
}

const enum element plan_step_element[STEP_BUFFERS] = {[STEP_X] = ELEMENT_RESIDUAL,
                                                      [STEP_Q] = ELEMENT_ACTIVATION,
                                                      [STEP_O] = ELEMENT_ACTIVATION,
                                                      [STEP_H] = ELEMENT_ACTIVATION,
                                                      [STEP_ROPE] = ELEMENT_ROPE};
const enum element plan_vision_element[VISION_BUFFERS] = {
    [VISION_X] = ELEMENT_RESIDUAL,   [VISION_QKV] = ELEMENT_ACTIVATION,
    [VISION_O] = ELEMENT_ACTIVATION, [VISION_H] = ELEMENT_ACTIVATION,
    [VISION_ROPE] = ELEMENT_ROPE,    [VISION_FEATURES] = ELEMENT_FEATURE};

static uint64_t buffer_bytes(const struct backend *be, const size_t *elements,
                             const enum element *kind, int count)
{
    uint64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += (uint64_t)elements[i] * be->ops->memory->element_size[kind[i]];
    return sum;
}

static uint64_t step_workspace_bytes(const struct plan_question *q, const struct backend *be,
                                     int rows)
{
    size_t n[STEP_BUFFERS];
    plan_step_elements(n, &q->model->text, rows);
    return buffer_bytes(be, n, plan_step_element, STEP_BUFFERS);
}

static uint64_t vision_workspace_bytes(const struct plan *p, const struct backend *be,
                                       const struct vision_shape *v)
{
    size_t n[VISION_BUFFERS];
    plan_vision_elements(n, v, p->vision_rows, p->max_patches, plan_features_cross_devices(p));
    return buffer_bytes(be, n, plan_vision_element, VISION_BUFFERS);
}

/* ---- the whole plan ---- */

static uint64_t host_buffer_bytes(const struct plan *p, const struct model *m)
{
    uint64_t vocabulary = (uint64_t)m->text.vocab_size, seqs = (uint64_t)p->max_num_seqs,
             rows = (uint64_t)p->limits.max_rows;
    uint64_t images = (uint64_t)(p->feature_rows / FEATURE_BLOCK);
    uint64_t pixels = rows * ((uint64_t)vision_patch_width(&m->vision) * sizeof(float) +
                              3 * sizeof(int32_t));
    uint64_t sampling = vocabulary *
                        (2 * sizeof(float) + 16 +
                         seqs * (sizeof(int32_t) +
                                 1)); /* logits, scores, candidates; counts of each sequence */
    uint64_t tables = (uint64_t)p->kv.n_blocks * BLOCK_TABLE_BYTES +
                      images * images * sizeof(int32_t) +
                      2 * seqs * (uint64_t)p->max_blocks * sizeof(int32_t);
    return pixels + sampling + tables + rows * 7 * sizeof(int32_t);
}

/* Pins the rows unless the system forbids it or they would take more than half of free host
 * memory. */
static void choose_head_rows(struct plan *p, const struct plan_question *q, uint64_t bytes)
{
    const struct device_info *f = q->device;
    const bool may = f->pinned_reads != PINNED_READS_DENIED &&
                     (!f->host_free || bytes <= f->host_free / 2);
    const enum plan_head_rows given = q->limits->knobs.lm_head_rows;
    p->knobs.lm_head_rows = !bytes  ? HEAD_ROWS_AUTO
                            : given ? given
                            : may   ? HEAD_ROWS_PINNED
                                    : HEAD_ROWS_HOST;
    p->limits.read_pinned_rows = p->knobs.lm_head_rows == HEAD_ROWS_PINNED;
}

static void size_gpu_rows(struct plan *p, const struct plan_question *q)
{
    const struct weight_sizes *w = &q->weights;
    const enum plan_vision vision = p->knobs.vision;
    const bool head_8bit = p->knobs.lm_head == LM_HEAD_8BIT;
    p->bytes[PLAN_CONTEXT] = p->device->context;
    p->bytes[PLAN_TEXT_WEIGHTS] = w->text - w->cpu_layers[p->cpu_layers];
    p->bytes[PLAN_LM_HEAD] = head_8bit       ? w->lm_head_8bit
                             : p->cpu_layers ? w->lm_head_only
                                             : w->lm_head;
    p->bytes[PLAN_VISION_WEIGHTS] = vision == VISION_RESIDENT   ? w->vision
                                    : vision == VISION_STREAMED ? w->vision_streamed
                                                                : 0;
    p->bytes[PLAN_UPLOAD_RING] = PLAN_UPLOAD_RING_BYTES;
    const uint64_t rows = head_8bit ? w->lm_head_file - (p->cpu_layers ? w->embed_file : 0) : 0;
    choose_head_rows(p, q, rows);
    p->bytes[PLAN_PINNED_ROWS] = p->knobs.lm_head_rows == HEAD_ROWS_PINNED ? rows : 0;
    p->bytes[PLAN_FILE_WEIGHTS] = rows - p->bytes[PLAN_PINNED_ROWS] +
                                  (vision == VISION_STREAMED ? w->vision_streamed_file
                                   : vision == VISION_HOST   ? w->vision_file
                                                             : 0);
    if (p->cpu_layers)
        p->bytes[PLAN_FILE_WEIGHTS] += w->cpu_layers_file[p->cpu_layers] + w->embed_file;
}

/* Sizes what the CPU needs next to a GPU for the vision encoder or for layers. */
static void size_cpu_rows(struct plan *p, const struct plan_question *q)
{
    const struct backend *cpu = q->device->cpu;
    const int rows = p->limits.max_rows;
    if (plan_vision_on_cpu(p))
        p->bytes[PLAN_CPU_VISION_WORKSPACE] = vision_workspace_bytes(p, cpu, &q->model->vision);
    p->bytes[PLAN_CPU_SCRATCH] = cpu->ops->memory->scratch_bytes(cpu, &p->cpu_limits);
    if (!p->cpu_layers) return;
    p->bytes[PLAN_CPU_KV] = cpu->ops->memory->kv_bytes(cpu, &p->cpu_kv);
    p->bytes[PLAN_CPU_WORKSPACE] = step_workspace_bytes(q, cpu, rows);
    p->bytes[PLAN_QUANTIZED] += q->weights.cpu_layers_quantized[p->cpu_layers];
    p->cpu_layers_bytes = q->weights.cpu_layers_file[p->cpu_layers] +
                          q->weights.cpu_layers_quantized[p->cpu_layers] + p->bytes[PLAN_CPU_KV] +
                          p->bytes[PLAN_CPU_WORKSPACE];
}

/* Predicts the speed: a token reads the weights of all layers and the head, first on one device,
 * then on the other. Ignores KV cache, bus and launches. */
static double predict_tokens_per_second(const struct plan *p, const struct plan_question *q)
{
    const struct device_info *f = p->device;
    const double gpu = (double)(p->bytes[PLAN_TEXT_WEIGHTS] +
                                (p->cpu_layers || p->knobs.lm_head == LM_HEAD_8BIT
                                     ? p->bytes[PLAN_LM_HEAD]
                                     : q->weights.lm_head_only));
    const double cpu = (double)(q->weights.cpu_layers_file[p->cpu_layers] +
                                q->weights.cpu_layers_quantized[p->cpu_layers]);
    if (f->cpu_bandwidth <= 0) return 0;
    return PLAN_BANDWIDTH_SHARE /
           ((f->bandwidth > 0 ? gpu / f->bandwidth : 0) + cpu / f->cpu_bandwidth);
}

enum plan_row_location { ROW_ON_DEVICE, ROW_ON_HOST, ROW_IN_FILE };

/* Where a row lies. On the host everything is in host memory, except mapped weights. */
static const struct {
    const char *name, *life;
    enum plan_row_location place;
    bool on_host, on_card; /* which plans have the row */
} plan_rows[PLAN_ROWS] = {
    [PLAN_CONTEXT] = {"context", "always", ROW_ON_DEVICE, false, true},
    [PLAN_WEIGHTS] = {"weights", "always", ROW_IN_FILE, true, false},
    [PLAN_TEXT_WEIGHTS] = {"text model weights", "always", ROW_ON_DEVICE, false, true},
    [PLAN_LM_HEAD] = {"head", "always", ROW_ON_DEVICE, true, true},
    [PLAN_VISION_WEIGHTS] = {"vision weights", "always", ROW_ON_DEVICE, false, true},
    [PLAN_KV] = {"KV cache", "always", ROW_ON_DEVICE, true, true},
    [PLAN_IMAGE_CACHE] = {"image cache", "always", ROW_ON_DEVICE, true, true},
    [PLAN_SHARED_WORKSPACE] = {"vision or prefill workspace", "vision, prefill", ROW_ON_DEVICE,
                               true, true},
    [PLAN_DECODE_WORKSPACE] = {"decode workspace", "always", ROW_ON_DEVICE, true, true},
    [PLAN_LOGITS] = {"logits", "always", ROW_ON_DEVICE, true, true},
    [PLAN_SCRATCH] = {"kernels' scratch", "always", ROW_ON_DEVICE, true, true},
    [PLAN_UPLOAD_RING] = {"upload ring, pinned", "always", ROW_ON_HOST, false, true},
    [PLAN_QUANTIZED] = {"quantized weights", "always", ROW_ON_HOST, true, true},
    [PLAN_HOST_BUFFERS] = {"pixels, sampling, tables", "always", ROW_ON_HOST, true, true},
    [PLAN_CPU_VISION_WORKSPACE] = {"vision workspace", "vision", ROW_ON_HOST, false, true},
    [PLAN_CPU_SCRATCH] = {"scratch of the CPU's kernels", "vision", ROW_ON_HOST, false, true},
    [PLAN_CPU_KV] = {"KV cache of the CPU's layers", "always", ROW_ON_HOST, false, true},
    [PLAN_CPU_WORKSPACE] = {"workspace, the CPU's layers", "always", ROW_ON_HOST, false, true},
    [PLAN_PINNED_ROWS] = {"head's stored rows, pinned", "always", ROW_ON_HOST, false, true},
    [PLAN_FILE_WEIGHTS] = {"weights read when needed", "always", ROW_IN_FILE, false, true},
};

static bool has_row(const struct plan *p, int row)
{
    if (row == PLAN_CPU_VISION_WORKSPACE) return plan_vision_on_cpu(p);
    if (row == PLAN_CPU_SCRATCH) return plan_vision_on_cpu(p) || p->cpu_layers;
    if (row == PLAN_CPU_KV || row == PLAN_CPU_WORKSPACE) return p->cpu_layers > 0;
    if (row == PLAN_QUANTIZED || row == PLAN_PINNED_ROWS ||
        (row == PLAN_LM_HEAD && !p->device->is_gpu))
        return p->bytes[row] > 0;
    if (row == PLAN_VISION_WEIGHTS && (plan_vision_on_cpu(p) || !p->max_tokens_per_image))
        return false;
    return p->device->is_gpu ? plan_rows[row].on_card : plan_rows[row].on_host;
}

/* Features are stored where the first layer runs. */
static enum plan_row_location plan_row_place(const struct plan *p, int row)
{
    return row == PLAN_IMAGE_CACHE && p->cpu_layers ? ROW_ON_HOST : plan_rows[row].place;
}

static bool is_budgeted(const struct plan *p, int row)
{
    return plan_row_place(p, row) == ROW_ON_DEVICE ||
           (plan_row_place(p, row) == ROW_ON_HOST && !p->device->is_gpu);
}

void plan_size(struct plan *p, const struct plan_question *q)
{
    const struct model *m = q->model;
    choose_sizes(p, q);
    choose_backend_limits(p, q);
    const struct backend *feature_be = p->cpu_layers ? q->device->cpu : q->be;
    uint64_t prefill = step_workspace_bytes(q, q->be, p->max_rows),
             vision = plan_vision_on_cpu(p) ? 0 : vision_workspace_bytes(p, q->be, &m->vision);
    p->bytes[PLAN_WEIGHTS] = m->weight_bytes;
    p->bytes[PLAN_QUANTIZED] = p->device->is_gpu ? m->max_quantized_bytes : m->quantized_bytes;
    p->bytes[PLAN_KV] = q->be->ops->memory->kv_bytes(q->be, &p->kv);
    p->bytes[PLAN_IMAGE_CACHE] = (uint64_t)(1 + m->vision.n_deepstack) * (uint64_t)p->feature_rows *
                                 (uint64_t)m->text.hidden *
                                 feature_be->ops->memory->element_size[ELEMENT_FEATURE];
    p->bytes[PLAN_SHARED_WORKSPACE] = prefill > vision ? prefill : vision;
    p->bytes[PLAN_DECODE_WORKSPACE] = step_workspace_bytes(q, q->be, p->decode_rows);
    p->bytes[PLAN_LOGITS] = (uint64_t)p->max_logits * (uint64_t)m->text.vocab_size * sizeof(float);
    p->bytes[PLAN_SCRATCH] = q->be->ops->memory->scratch_bytes(q->be, &p->limits);
    p->bytes[PLAN_HOST_BUFFERS] = host_buffer_bytes(p, m);
    if (p->device->is_gpu)
        size_gpu_rows(p, q);
    else
        p->bytes[PLAN_LM_HEAD] = p->knobs.lm_head == LM_HEAD_8BIT ? q->weights.lm_head_8bit : 0;
    if (plan_vision_on_cpu(p) || p->cpu_layers) size_cpu_rows(p, q);
    p->allocated = 0;
    for (int row = 0; row < PLAN_ROWS; row++) {
        if (!has_row(p, row) || !is_budgeted(p, row)) continue;
        if (p->device->is_gpu)
            p->bytes[row] = (p->bytes[row] + GPU_ALIGNMENT - 1) / GPU_ALIGNMENT * GPU_ALIGNMENT;
        p->allocated += p->bytes[row];
    }
    p->arena_bytes = p->device->is_gpu ? p->allocated - p->bytes[PLAN_CONTEXT] : 0;
    p->fits = p->allocated <= p->budget.bytes &&
              (!q->limits->cpu_bytes || p->cpu_layers_bytes <= q->limits->cpu_bytes);
    p->tokens_per_second = p->cpu_layers ? predict_tokens_per_second(p, q) : 0;
}

bool plan_features_cross_devices(const struct plan *p)
{
    return plan_vision_on_cpu(p) != (p->cpu_layers > 0);
}

/* Returns false on the host, where the vision knob stays AUTO. */
bool plan_vision_on_cpu(const struct plan *p)
{
    return p->knobs.vision == VISION_HOST;
}

struct placements plan_placements(const struct plan *p)
{
    static const enum placement vision_placements[] = {[VISION_AUTO] = PLACE_RESIDENT,
                                                       [VISION_RESIDENT] = PLACE_RESIDENT,
                                                       [VISION_STREAMED] = PLACE_STREAMED,
                                                       [VISION_HOST] = PLACE_HOST};
    const bool head_8bit = p->knobs.lm_head == LM_HEAD_8BIT;
    struct placements out = {.embed = head_8bit || p->cpu_layers ? PLACE_HOST : PLACE_RESIDENT,
                             .lm_head = head_8bit ? PLACE_EIGHT_BIT : PLACE_RESIDENT,
                             .vision = vision_placements[p->knobs.vision]};
    if (p->cpu_layers) out.range[out.n_ranges++] = (struct placed_range){0, p->cpu_layers, true};
    out.range[out.n_ranges++] = (struct placed_range){p->cpu_layers, p->n_layers, false};
    return out;
}

static ey_plan_item plan_item_of(const struct plan *p, int row)
{
    const enum plan_row_location place = plan_row_place(p, row);
    const char *device = place == ROW_IN_FILE                         ? "file"
                         : place == ROW_ON_HOST || !p->device->is_gpu ? "host"
                                                                      : p->device->name;
    if (row == PLAN_SHARED_WORKSPACE && plan_vision_on_cpu(p))
        return (ey_plan_item){"prefill workspace", device, p->bytes[row], "prefill"};
    if (row == PLAN_CPU_SCRATCH && p->cpu_layers)
        return (ey_plan_item){plan_rows[row].name, device, p->bytes[row], "always"};
    if (row == PLAN_QUANTIZED && p->device->is_gpu && !p->cpu_layers)
        return (ey_plan_item){"one quantized matrix", device, p->bytes[row], "loading"};
    return (ey_plan_item){plan_rows[row].name, device, p->bytes[row], plan_rows[row].life};
}

int plan_items(const struct plan *p, ey_plan_item out[PLAN_ROWS])
{
    int n = 0;
    for (int row = 0; row < PLAN_ROWS; row++)
        if (has_row(p, row)) out[n++] = plan_item_of(p, row);
    return n;
}
