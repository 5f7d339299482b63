/* Sizes of everything. */
#include "plan/plan.h"

#include "base/limits.h"

enum {
    DEFAULT_MODEL_LEN = 8192,
    DEFAULT_IMAGES = 16,
    DEFAULT_ROWS = 512,    /* of a chunk: enough to be bound by multiply-adds */
    LEAST_ROWS = 64,
    STEP_ROWS = 64,        /* who answers, and a little of a prompt */
    LEAST_PROMPT_ROWS = 16,
    ALIGNED = 64,          /* elements */
    BLOCK_TABLE_BYTES = 64, /* of one KV block in the pool's tables, about */
};

static bool in_range(int value, const char *name, int least, int most, ey_err *e)
{
    return (value >= least && value <= most) || ey_fail(e, EY_BAD_REQUEST, "%s is %d; it must be from %d to %d", name, value, least, most);
}

static bool choose_context(struct plan *p, const struct model *m, const struct plan_limits *l, ey_err *e)
{
    int wanted = l->max_model_len, most = m->text.max_position < EY_MAX_CONTEXT ? m->text.max_position : EY_MAX_CONTEXT;
    if (wanted < 0 || wanted > most)
        return ey_fail(e, EY_BAD_REQUEST, "a context of %d tokens is not possible; this model has at most %d", wanted, most);
    p->max_model_len = wanted ? wanted : most < DEFAULT_MODEL_LEN ? most : DEFAULT_MODEL_LEN;
    if (!wanted && l->kv_tokens && l->kv_tokens < p->max_model_len) p->max_model_len = l->kv_tokens;
    p->kv_tokens = l->kv_tokens ? l->kv_tokens : p->max_model_len;
    return p->kv_tokens >= p->max_model_len ||
           ey_fail(e, EY_BAD_REQUEST, "a KV pool of %d tokens does not hold one request of --max-model-len %d", p->kv_tokens, p->max_model_len);
}

static bool choose_limits(struct plan *p, const struct model *m, const struct plan_limits *l, ey_err *e)
{
    p->max_num_seqs = l->max_num_seqs ? l->max_num_seqs : 1;
    p->max_images = l->max_images ? l->max_images : DEFAULT_IMAGES;
    p->max_rows = l->max_num_batched_tokens ? l->max_num_batched_tokens : DEFAULT_ROWS;
    return in_range(p->max_num_seqs, "max_num_seqs", 1, EY_MAX_SEQS, e) && in_range(p->max_images, "max_images", 1, EY_MAX_IMAGES, e) &&
           in_range(l->kv_tokens, "kv_tokens", 0, EY_MAX_CONTEXT, e) &&
           in_range(p->max_rows, "max_num_batched_tokens", LEAST_ROWS, EY_MAX_BATCHED_TOKENS, e) && choose_context(p, m, l, e);
}

static int blocks_of(int n, int block)
{
    return (n + block - 1) / block;
}

static void choose_sizes(struct plan *p, const struct model *m)
{
    bool sees = m->vision.depth > 0;
    p->max_blocks = blocks_of(p->max_model_len, KV_BLOCK);
    p->max_visual = p->max_model_len / 2; /* the other half is for text */
    p->max_patches = sees ? blocks_of(p->max_visual * vision_group(&m->vision), KV_BLOCK) * KV_BLOCK : 0;
    p->step_rows = p->max_num_seqs + LEAST_PROMPT_ROWS > STEP_ROWS ? p->max_num_seqs + LEAST_PROMPT_ROWS : STEP_ROWS;
    /* the last block of each picture may be part empty */
    p->feature_rows = sees ? (blocks_of(p->max_visual, FEATURE_BLOCK) + p->max_images) * FEATURE_BLOCK : FEATURE_BLOCK;
    p->kv = (struct kv_shape){m->text.n_layers, m->text.n_kv_heads, m->text.head_dim, blocks_of(p->kv_tokens, KV_BLOCK)};
}

static int max_of(const int *values, int n)
{
    int max = values[0];
    for (int i = 1; i < n; i++) max = values[i] > max ? values[i] : max;
    return max;
}

static struct backend_limits limits_of(const struct plan *p, const struct model *m)
{
    const struct text_shape *t = &m->text;
    const struct vision_shape *v = &m->vision;
    const int widths[] = {t->hidden, text_q_width(t), 2 * text_kv_width(t), t->mlp, t->head_dim, 3 * v->hidden,
                          v->mlp, v->hidden, v->out_hidden, vision_group(v) * v->hidden, vision_patch_width(v)};
    return (struct backend_limits){
        .max_rows = p->max_rows > p->step_rows ? p->max_rows : p->step_rows,
        .max_keys = p->max_patches > p->max_model_len ? p->max_patches : p->max_model_len,
        .max_patches = p->max_patches,
        .max_width = max_of(widths, (int)(sizeof(widths) / sizeof(widths[0]))),
    };
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

void plan_tower_elements(size_t out[TOWER_BUFFERS], const struct vision_shape *v, int rows, int patches)
{
    out[TOWER_X] = elements(patches, v->hidden);
    out[TOWER_QKV] = elements(patches, 3 * v->hidden);
    out[TOWER_O] = elements(rows, v->hidden);
    out[TOWER_H] = elements(rows, v->mlp);
    out[TOWER_ROPE] = elements(patches, v->head_dim);
}

static uint64_t sum_of(const size_t *n, int count)
{
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) sum += n[i];
    return sum;
}

/* ---- the whole ---- */

static uint64_t host_bytes(const struct plan *p, const struct model *m)
{
    uint64_t vocabulary = (uint64_t)m->text.vocabulary, seqs = (uint64_t)p->max_num_seqs, rows = (uint64_t)p->limits.max_rows;
    uint64_t images = (uint64_t)(p->feature_rows / FEATURE_BLOCK);
    uint64_t picture = rows * ((uint64_t)vision_patch_width(&m->vision) * sizeof(float) + 3 * sizeof(int32_t));
    uint64_t sampling = vocabulary * (2 * sizeof(float) + 16 + seqs * (sizeof(int32_t) + 1)); /* logits, scores, candidates; counts of each */
    uint64_t tables = (uint64_t)p->kv.n_blocks * BLOCK_TABLE_BYTES + images * images * sizeof(int32_t) + 2 * seqs * (uint64_t)p->max_blocks * sizeof(int32_t);
    return picture + sampling + tables + rows * 7 * sizeof(int32_t);
}

bool plan_make(struct plan *p, const struct model *m, const struct backend *be, const struct plan_limits *limits, ey_err *e)
{
    size_t step[STEP_BUFFERS], chunk[STEP_BUFFERS], tower[TOWER_BUFFERS];
    uint64_t element = be->ops->element_size;
    *p = (struct plan){0};
    if (!choose_limits(p, m, limits, e)) return false;
    choose_sizes(p, m);
    p->limits = limits_of(p, m);
    plan_step_elements(step, &m->text, p->step_rows);
    plan_step_elements(chunk, &m->text, p->max_rows);
    plan_tower_elements(tower, &m->vision, p->max_rows, p->max_patches);
    uint64_t prefill = sum_of(chunk, STEP_BUFFERS), vision = sum_of(tower, TOWER_BUFFERS);
    p->bytes[PLAN_WEIGHTS] = m->weight_bytes;
    p->bytes[PLAN_KV] = be->ops->kv_bytes(be, &p->kv);
    p->bytes[PLAN_IMAGES] = (uint64_t)(1 + m->vision.n_deepstack) * (uint64_t)p->feature_rows * (uint64_t)m->text.hidden * element;
    p->bytes[PLAN_SHARED] = (prefill > vision ? prefill : vision) * element;
    p->bytes[PLAN_STEP] = sum_of(step, STEP_BUFFERS) * element;
    p->bytes[PLAN_LOGITS] = (uint64_t)p->max_num_seqs * (uint64_t)m->text.vocabulary * sizeof(float);
    p->bytes[PLAN_SCRATCH] = be->ops->scratch_bytes(be, &p->limits);
    p->bytes[PLAN_HOST] = host_bytes(p, m);
    for (int row = PLAN_WEIGHTS + 1; row < PLAN_ROWS; row++) p->allocated += p->bytes[row];
    return true;
}

ey_plan_item plan_item(const struct plan *p, enum plan_row row)
{
    static const struct {
        const char *name, *device, *life;
    } rows[PLAN_ROWS] = {
        [PLAN_WEIGHTS] = {"weights", "file", "always"},
        [PLAN_KV] = {"KV cache", "host", "always"},
        [PLAN_IMAGES] = {"image cache", "host", "always"},
        [PLAN_SHARED] = {"vision or prefill workspace", "host", "vision, prefill"},
        [PLAN_STEP] = {"decode workspace", "host", "always"},
        [PLAN_LOGITS] = {"logits", "host", "always"},
        [PLAN_SCRATCH] = {"kernels' scratch", "host", "always"},
        [PLAN_HOST] = {"pixels, sampling, tables", "host", "always"},
    };
    return (ey_plan_item){rows[row].name, rows[row].device, p->bytes[row], rows[row].life};
}

static bool context_fits(const struct model *m, const struct backend *be, const struct plan_limits *limits, int blocks, uint64_t budget)
{
    struct plan p;
    struct plan_limits shorter = *limits;
    shorter.max_model_len = shorter.kv_tokens = blocks * KV_BLOCK;
    return plan_make(&p, m, be, &shorter, NULL) && p.allocated <= budget;
}

int plan_longest_context(const struct model *m, const struct backend *be, const struct plan_limits *limits, uint64_t budget)
{
    struct plan p;
    if (!plan_make(&p, m, be, limits, NULL)) return 0;
    int fits = 0, too_long = p.max_blocks + 1;
    while (too_long - fits > 1) {
        int middle = (fits + too_long) / 2;
        if (context_fits(m, be, limits, middle, budget)) fits = middle;
        else too_long = middle;
    }
    return fits * KV_BLOCK;
}
