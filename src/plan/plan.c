/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of everything. */
#include "plan/plan.h"

#include "plan/sizes.h"

enum {
    STEP_ROWS = 64, /* who answers, and a little of a prompt */
    LEAST_PROMPT_ROWS = 16,
    ALIGNED = 64,           /* elements */
    CARD_ALIGNED = 256,     /* bytes: where an allocation may begin */
    BLOCK_TABLE_BYTES = 64, /* of one KV block in the pool's tables, about */
};

/* Visual tokens of one picture. On a card no more than detail "high" gives it unless somebody asks:
 * the tower keeps keys and values of all its patches. */
static int largest_picture(const struct plan_question *q, int max_visual)
{
    enum { CARD_PIXELS = 4194304 };
    const struct patch_spec *spec = &q->model->patch_spec;
    const uint64_t side = (uint64_t)(spec->patch * spec->merge), asked = q->limits->max_pixels;
    uint64_t pixels = asked > CARD_PIXELS ? asked : CARD_PIXELS;
    if (!q->facts->card || pixels / (side * side) >= (uint64_t)max_visual) return max_visual;
    return (int)(pixels / (side * side));
}

static void choose_pictures(struct plan *p, const struct plan_question *q)
{
    const struct model *m = q->model;
    bool sees = m->vision.depth > 0;
    p->max_visual = p->max_model_len / 2; /* the other half is for text */
    p->max_picture = sees ? largest_picture(q, p->max_visual) : 0;
    p->max_patches = blocks_of(p->max_picture * vision_group(&m->vision), KV_BLOCK) * KV_BLOCK;
    /* the last block of each picture may be part empty */
    p->feature_rows = sees ? (blocks_of(p->max_visual, FEATURE_BLOCK) + p->max_images) *
                                 FEATURE_BLOCK
                           : FEATURE_BLOCK;
}

static void choose_sizes(struct plan *p, const struct plan_question *q)
{
    const struct text_shape *t = &q->model->text;
    choose_pictures(p, q);
    p->max_blocks = blocks_of(p->max_model_len, KV_BLOCK);
    p->tower_rows = plan_tower_beside(p) && p->max_rows > HOST_ROWS ? HOST_ROWS : p->max_rows;
    p->step_rows = p->max_num_seqs + LEAST_PROMPT_ROWS > STEP_ROWS
                       ? p->max_num_seqs + LEAST_PROMPT_ROWS
                       : STEP_ROWS;
    const int blocks = blocks_of(p->kv_tokens, KV_BLOCK);
    p->kv = (struct kv_shape){t->n_layers - p->first_layers, t->n_kv_heads, t->head_dim, blocks,
                              p->levers.kv == KV_FP8};
    p->first_kv = (struct kv_shape){p->first_layers, t->n_kv_heads, t->head_dim, blocks, false};
}

static int max_of(const int *values, int n)
{
    int max = values[0];
    for (int i = 1; i < n; i++)
        max = values[i] > max ? values[i] : max;
    return max;
}

/* Of a backend that runs steps of `t`, the tower `v`, or both; a shape without layers: not this
 * one. */
static struct backend_limits limits_of(const struct plan *p, int rows, const struct text_shape *t,
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
        .max_blocks = p->max_blocks,
        .text = *t,
        .vision = *v,
        .max_width = max_of(widths, (int)(sizeof(widths) / sizeof(widths[0]))),
    };
}

static void choose_backend_limits(struct plan *p, const struct plan_question *q)
{
    const struct model *m = q->model;
    static const struct text_shape no_decoder;
    static const struct vision_shape no_tower;
    const int rows = p->max_rows > p->step_rows ? p->max_rows : p->step_rows;
    const bool beside = plan_tower_beside(p);
    p->limits = limits_of(p, rows, &m->text, beside ? &no_tower : &m->vision);
    p->limits.int4 = m->int4;
    p->limits.fp8_prompts = q->limits->fp8_prompts;
    if (!beside && !p->first_layers) return;
    p->cpu_limits = limits_of(p, p->first_layers ? rows : p->tower_rows,
                              p->first_layers ? &m->text : &no_decoder,
                              beside ? &m->vision : &no_tower);
    p->cpu_limits.int4 = m->int4 && p->first_layers;
}

/* ---- workspaces ---- */

static size_t elements(int rows, int width)
{
    return ((size_t)rows * (size_t)width + ALIGNED - 1) / ALIGNED * ALIGNED;
}

void plan_step_elements(size_t out[STEP_BUFFERS], const struct text_shape *t, int rows)
{
    out[STEP_X] = elements(rows, t->hidden);
    out[STEP_Q] = out[STEP_O] = elements(rows, text_q_width(t));
    out[STEP_H] = elements(rows, t->mlp);
    out[STEP_ROPE] = elements(rows, t->head_dim);
}

void plan_tower_elements(size_t out[TOWER_BUFFERS], const struct vision_shape *v, int rows,
                         int patches, bool cross)
{
    out[TOWER_X] = elements(patches, v->hidden);
    out[TOWER_QKV] = elements(patches, 3 * v->hidden);
    out[TOWER_O] = elements(rows, v->hidden);
    out[TOWER_H] = elements(rows, v->mlp);
    out[TOWER_ROPE] = elements(patches, v->head_dim);
    out[TOWER_FEATURES] = cross ? elements(FEATURE_BLOCK, v->out_hidden) : 0;
}

const enum element plan_step_kind[STEP_BUFFERS] = {[STEP_X] = ELEMENT_RESIDUAL,
                                                   [STEP_Q] = ELEMENT_ACTIVATION,
                                                   [STEP_O] = ELEMENT_ACTIVATION,
                                                   [STEP_H] = ELEMENT_ACTIVATION,
                                                   [STEP_ROPE] = ELEMENT_ROPE};
const enum element plan_tower_kind[TOWER_BUFFERS] = {
    [TOWER_X] = ELEMENT_RESIDUAL,   [TOWER_QKV] = ELEMENT_ACTIVATION,
    [TOWER_O] = ELEMENT_ACTIVATION, [TOWER_H] = ELEMENT_ACTIVATION,
    [TOWER_ROPE] = ELEMENT_ROPE,    [TOWER_FEATURES] = ELEMENT_FEATURE};

static uint64_t bytes_of(const struct backend *be, const size_t *elements, const enum element *kind,
                         int count)
{
    uint64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += (uint64_t)elements[i] * be->ops->element_size[kind[i]];
    return sum;
}

static uint64_t step_bytes(const struct plan_question *q, const struct backend *be, int rows)
{
    size_t n[STEP_BUFFERS];
    plan_step_elements(n, &q->model->text, rows);
    return bytes_of(be, n, plan_step_kind, STEP_BUFFERS);
}

static uint64_t tower_bytes(const struct plan *p, const struct backend *be,
                            const struct vision_shape *v)
{
    size_t n[TOWER_BUFFERS];
    plan_tower_elements(n, v, p->tower_rows, p->max_patches, plan_features_cross(p));
    return bytes_of(be, n, plan_tower_kind, TOWER_BUFFERS);
}

/* ---- the whole ---- */

static uint64_t host_bytes(const struct plan *p, const struct model *m)
{
    uint64_t vocabulary = (uint64_t)m->text.vocabulary, seqs = (uint64_t)p->max_num_seqs,
             rows = (uint64_t)p->limits.max_rows;
    uint64_t images = (uint64_t)(p->feature_rows / FEATURE_BLOCK);
    uint64_t picture = rows * ((uint64_t)vision_patch_width(&m->vision) * sizeof(float) +
                               3 * sizeof(int32_t));
    uint64_t sampling = vocabulary * (2 * sizeof(float) + 16 +
                                      seqs * (sizeof(int32_t) +
                                              1)); /* logits, scores, candidates; counts of each */
    uint64_t tables = (uint64_t)p->kv.n_blocks * BLOCK_TABLE_BYTES +
                      images * images * sizeof(int32_t) +
                      2 * seqs * (uint64_t)p->max_blocks * sizeof(int32_t);
    return picture + sampling + tables + rows * 7 * sizeof(int32_t);
}

/* Pinned where nothing is known against it, and where that leaves the host at least as much again.
 */
static void choose_rows(struct plan *p, const struct plan_question *q, uint64_t bytes)
{
    const struct device_facts *f = q->facts;
    const bool may = f->may_read != MAY_NOT_READ && (!f->host_free || bytes <= f->host_free / 2);
    const enum rows_reader given = q->limits->levers.rows;
    p->levers.rows = !bytes ? ROWS_AUTO : given ? given : may ? ROWS_PINNED : ROWS_HOST;
    p->limits.read_stored = p->levers.rows == ROWS_PINNED;
}

static void size_card(struct plan *p, const struct plan_question *q)
{
    const struct weight_sizes *w = &q->weights;
    const enum vision_home home = p->levers.vision;
    const bool short_head = p->levers.head == HEAD_8BIT;
    p->bytes[PLAN_CONTEXT] = p->facts->context;
    p->bytes[PLAN_DECODER] = w->decoder - w->first[p->first_layers];
    p->bytes[PLAN_HEAD] = short_head ? w->head_8bit : p->first_layers ? w->head_alone : w->head;
    p->bytes[PLAN_VISION] = home == VISION_RESIDENT   ? w->vision
                            : home == VISION_STREAMED ? w->vision_streamed
                                                      : 0;
    p->bytes[PLAN_RING] = PLAN_RING_BYTES;
    const uint64_t rows = short_head ? w->head_stored - (p->first_layers ? w->embed_stored : 0) : 0;
    choose_rows(p, q, rows);
    p->bytes[PLAN_PINNED] = p->levers.rows == ROWS_PINNED ? rows : 0;
    p->bytes[PLAN_KEPT] = rows - p->bytes[PLAN_PINNED] +
                          (home == VISION_STREAMED ? w->streamed_stored
                           : home == VISION_HOST   ? w->vision_stored
                                                   : 0);
    if (p->first_layers) p->bytes[PLAN_KEPT] += w->first_stored[p->first_layers] + w->embed_stored;
}

/* What the CPU beside a card needs for the tower, or for layers. */
static void size_beside(struct plan *p, const struct plan_question *q)
{
    const struct backend *cpu = q->facts->cpu;
    const int rows = p->limits.max_rows;
    if (plan_tower_beside(p)) p->bytes[PLAN_TOWER] = tower_bytes(p, cpu, &q->model->vision);
    p->bytes[PLAN_CPU_SCRATCH] = cpu->ops->scratch_bytes(cpu, &p->cpu_limits);
    if (!p->first_layers) return;
    p->bytes[PLAN_FIRST_KV] = cpu->ops->kv_bytes(cpu, &p->first_kv);
    p->bytes[PLAN_FIRST] = step_bytes(q, cpu, rows);
    p->bytes[PLAN_MADE] += q->weights.first_made[p->first_layers];
    p->first_bytes = q->weights.first_stored[p->first_layers] +
                     q->weights.first_made[p->first_layers] + p->bytes[PLAN_FIRST_KV] +
                     p->bytes[PLAN_FIRST];
}

/* A token reads the weights of all layers and the head, first on one side, then on the other; keys
 * and values, the bus and the launches are left out. */
static double tokens_per_second(const struct plan *p, const struct plan_question *q)
{
    const struct device_facts *f = p->facts;
    const double card = (double)(p->bytes[PLAN_DECODER] +
                                 (p->first_layers || p->levers.head == HEAD_8BIT
                                      ? p->bytes[PLAN_HEAD]
                                      : q->weights.head_alone));
    const double cpu = (double)(q->weights.first_stored[p->first_layers] +
                                q->weights.first_made[p->first_layers]);
    if (f->cpu_reads <= 0) return 0;
    return PLAN_SHARE_OF_READS / ((f->reads > 0 ? card / f->reads : 0) + cpu / f->cpu_reads);
}

enum place { ON_DEVICE, ON_HOST, IN_FILE };

/* Where a row lies: on the host everything is in its memory, but for mapped weights. */
static const struct {
    const char *name, *life;
    enum place place;
    bool on_host, on_card; /* the plan of which has it */
} rows[PLAN_ROWS] = {
    [PLAN_CONTEXT] = {"context", "always", ON_DEVICE, false, true},
    [PLAN_WEIGHTS] = {"weights", "always", IN_FILE, true, false},
    [PLAN_DECODER] = {"decoder weights", "always", ON_DEVICE, false, true},
    [PLAN_HEAD] = {"head", "always", ON_DEVICE, true, true},
    [PLAN_VISION] = {"vision weights", "always", ON_DEVICE, false, true},
    [PLAN_KV] = {"KV cache", "always", ON_DEVICE, true, true},
    [PLAN_IMAGES] = {"image cache", "always", ON_DEVICE, true, true},
    [PLAN_SHARED] = {"vision or prefill workspace", "vision, prefill", ON_DEVICE, true, true},
    [PLAN_STEP] = {"decode workspace", "always", ON_DEVICE, true, true},
    [PLAN_LOGITS] = {"logits", "always", ON_DEVICE, true, true},
    [PLAN_SCRATCH] = {"kernels' scratch", "always", ON_DEVICE, true, true},
    [PLAN_RING] = {"upload ring, pinned", "always", ON_HOST, false, true},
    [PLAN_MADE] = {"quantised weights", "always", ON_HOST, true, true},
    [PLAN_HOST] = {"pixels, sampling, tables", "always", ON_HOST, true, true},
    [PLAN_TOWER] = {"vision workspace", "vision", ON_HOST, false, true},
    [PLAN_CPU_SCRATCH] = {"scratch of the CPU's kernels", "vision", ON_HOST, false, true},
    [PLAN_FIRST_KV] = {"KV cache of the CPU's layers", "always", ON_HOST, false, true},
    [PLAN_FIRST] = {"workspace, the CPU's layers", "always", ON_HOST, false, true},
    [PLAN_PINNED] = {"head's stored rows, pinned", "always", ON_HOST, false, true},
    [PLAN_KEPT] = {"weights read when needed", "always", IN_FILE, false, true},
};

static bool has_row(const struct plan *p, int row)
{
    if (row == PLAN_TOWER) return plan_tower_beside(p);
    if (row == PLAN_CPU_SCRATCH) return plan_tower_beside(p) || p->first_layers;
    if (row == PLAN_FIRST_KV || row == PLAN_FIRST) return p->first_layers > 0;
    if (row == PLAN_MADE || row == PLAN_PINNED || (row == PLAN_HEAD && !p->facts->card))
        return p->bytes[row] > 0;
    if (row == PLAN_VISION && (plan_tower_beside(p) || !p->max_picture)) return false;
    return p->facts->card ? rows[row].on_card : rows[row].on_host;
}

/* Features lie where the first layer is. */
static enum place place_of(const struct plan *p, int row)
{
    return row == PLAN_IMAGES && p->first_layers ? ON_HOST : rows[row].place;
}

static bool is_budgeted(const struct plan *p, int row)
{
    return place_of(p, row) == ON_DEVICE || (place_of(p, row) == ON_HOST && !p->facts->card);
}

void plan_size(struct plan *p, const struct plan_question *q)
{
    const struct model *m = q->model;
    choose_sizes(p, q);
    choose_backend_limits(p, q);
    const struct backend *first = p->first_layers ? q->facts->cpu : q->be;
    uint64_t prefill = step_bytes(q, q->be, p->max_rows),
             vision = plan_tower_beside(p) ? 0 : tower_bytes(p, q->be, &m->vision);
    p->bytes[PLAN_WEIGHTS] = m->weight_bytes;
    p->bytes[PLAN_MADE] = p->facts->card ? m->largest_made : m->made_bytes;
    p->bytes[PLAN_KV] = q->be->ops->kv_bytes(q->be, &p->kv);
    p->bytes[PLAN_IMAGES] = (uint64_t)(1 + m->vision.n_deepstack) * (uint64_t)p->feature_rows *
                            (uint64_t)m->text.hidden * first->ops->element_size[ELEMENT_FEATURE];
    p->bytes[PLAN_SHARED] = prefill > vision ? prefill : vision;
    p->bytes[PLAN_STEP] = step_bytes(q, q->be, p->step_rows);
    p->bytes[PLAN_LOGITS] = (uint64_t)p->max_num_seqs * (uint64_t)m->text.vocabulary *
                            sizeof(float);
    p->bytes[PLAN_SCRATCH] = q->be->ops->scratch_bytes(q->be, &p->limits);
    p->bytes[PLAN_HOST] = host_bytes(p, m);
    if (p->facts->card)
        size_card(p, q);
    else
        p->bytes[PLAN_HEAD] = p->levers.head == HEAD_8BIT ? q->weights.head_8bit : 0;
    if (plan_tower_beside(p) || p->first_layers) size_beside(p, q);
    p->allocated = 0;
    for (int row = 0; row < PLAN_ROWS; row++) {
        if (!has_row(p, row) || !is_budgeted(p, row)) continue;
        if (p->facts->card)
            p->bytes[row] = (p->bytes[row] + CARD_ALIGNED - 1) / CARD_ALIGNED * CARD_ALIGNED;
        p->allocated += p->bytes[row];
    }
    p->arena = p->facts->card ? p->allocated - p->bytes[PLAN_CONTEXT] : 0;
    p->fits = p->allocated <= p->budget.bytes &&
              (!q->limits->cpu_bytes || p->first_bytes <= q->limits->cpu_bytes);
    p->tokens_per_second = p->first_layers ? tokens_per_second(p, q) : 0;
}

bool plan_features_cross(const struct plan *p)
{
    return plan_tower_beside(p) != (p->first_layers > 0);
}

/* On the host no lever is pulled, but a head of 8 bits that was asked for. */
bool plan_tower_beside(const struct plan *p)
{
    return p->levers.vision == VISION_HOST;
}

struct placements plan_placements(const struct plan *p)
{
    static const enum placement towers[] = {[VISION_AUTO] = PLACE_RESIDENT,
                                            [VISION_RESIDENT] = PLACE_RESIDENT,
                                            [VISION_STREAMED] = PLACE_STREAMED,
                                            [VISION_HOST] = PLACE_HOST};
    bool short_head = p->levers.head == HEAD_8BIT;
    return (struct placements){short_head || p->first_layers ? PLACE_HOST : PLACE_RESIDENT,
                               short_head ? PLACE_EIGHT_BIT : PLACE_RESIDENT,
                               towers[p->levers.vision], p->first_layers};
}

static ey_plan_item item_of(const struct plan *p, int row)
{
    const enum place place = place_of(p, row);
    const char *device = place == IN_FILE                      ? "file"
                         : place == ON_HOST || !p->facts->card ? "host"
                                                               : p->facts->name;
    if (row == PLAN_SHARED && plan_tower_beside(p))
        return (ey_plan_item){"prefill workspace", device, p->bytes[row], "prefill"};
    if (row == PLAN_CPU_SCRATCH && p->first_layers)
        return (ey_plan_item){rows[row].name, device, p->bytes[row], "always"};
    if (row == PLAN_MADE && p->facts->card && !p->first_layers)
        return (ey_plan_item){"weight on its way, quantised", device, p->bytes[row], "loading"};
    return (ey_plan_item){rows[row].name, device, p->bytes[row], rows[row].life};
}

int plan_items(const struct plan *p, ey_plan_item out[PLAN_ROWS])
{
    int n = 0;
    for (int row = 0; row < PLAN_ROWS; row++)
        if (has_row(p, row)) out[n++] = item_of(p, row);
    return n;
}
