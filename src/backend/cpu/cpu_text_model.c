/* SPDX-License-Identifier: Apache-2.0 */
/* The text model's steps on the cpu backend: fused matmuls, a paged BF16 KV cache, attention with
 * an online softmax over blocks of 64 keys. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_backend.h"

void cpu_embed(struct backend *be, dev x, const struct placed *table, dev features,
               const struct step *step)
{
    size_t hidden = (size_t)cpu_tensor(table)->cols;
    for (int i = 0; i < step->n_rows; i++) {
        float *row = (float *)x + (size_t)i * hidden;
        if (step->feature[i] >= 0)
            memcpy(row, (const float *)features + (size_t)step->feature[i] * hidden,
                   hidden * sizeof(float));
        else
            cpu_of(be)->k->rows->dequantize_row(row, &cpu_weight_of(table)->m, step->token[i]);
    }
}

struct rope_job {
    float *table;
    const struct rope *rope;
    const int32_t *position;
};

static void rope_rows(void *context, size_t begin, size_t end, int thread)
{
    const struct rope_job *j = context;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float *out = j->table + i * 2 * (size_t)j->rope->n_pairs;
        for (int p = 0; p < j->rope->n_pairs; p++) {
            float angle = (float)j->position[3 * i + j->rope->axis[p]] * j->rope->frequency[p];
            out[2 * p] = cosf(angle);
            out[2 * p + 1] = sinf(angle);
        }
    }
}

void cpu_rope_table(struct backend *be, dev table, const struct rope *rope, const int32_t *position,
                    int n)
{
    struct rope_job job = {table, rope, position};
    pool_run(cpu_of(be)->pool, (size_t)n, 16, rope_rows, &job);
}

void cpu_apply_rope(float *head, const float *table, int n_pairs)
{
    for (int i = 0; i < n_pairs; i++) {
        float a = head[i], b = head[i + n_pairs], c = table[2 * i], s = table[2 * i + 1];
        head[i] = a * c - b * s;
        head[i + n_pairs] = b * c + a * s;
    }
}

/* ---- keys and values ---- */

/* The cache is [layer, block, kv head] of keys and then values, in the layout of KV_BF16; head_dim
 * must be even. */
size_t cpu_kv_bytes(const struct backend *be, const struct kv_shape *s)
{
    (void)be;
    return sizeof(uint16_t) * 2 * KV_BLOCK * (size_t)s->n_layers * (size_t)s->n_blocks *
           (size_t)s->n_kv_heads * (size_t)s->head_dim;
}

static uint16_t *cpu_kv_block(const struct kv_cache *kv, int layer, int block, int head)
{
    const struct kv_shape *s = &kv->shape;
    size_t i = ((size_t)layer * (size_t)s->n_blocks + (size_t)block) * (size_t)s->n_kv_heads +
               (size_t)head;
    return (uint16_t *)kv->data + i * 2 * KV_BLOCK * (size_t)s->head_dim;
}

enum { QKV_PIECE = 16, QKV_LEAST = 2 }; /* consecutive items of a thread */

struct qkv_job {
    struct cpu *c;
    float *q, *k, *v;
    const float *q_norm, *k_norm, *rope; /* norms may be NULL */
    struct kv_cache *kv;
    int layer, group; /* group: query heads per KV head */
    const struct text_shape *shape;
    const struct step *step;
};

static void cpu_norm_and_rope(const struct qkv_job *j, float *head, const float *norm, int row)
{
    int dim = j->shape->head_dim;
    if (norm) j->c->k->rows->rms_norm(head, head, norm, (size_t)dim, j->shape->norm_eps);
    cpu_apply_rope(head, j->rope + (size_t)row * (size_t)dim, dim / 2);
}

/* Where the key and value of one row and head are stored: `index` is the slot in the block. */
struct kv_slot {
    uint16_t *block;
    size_t index;
};

static struct kv_slot kv_slot_of(const struct qkv_job *j, int row, int head)
{
    const int index = j->step->row_slot[row];
    return (struct kv_slot){cpu_kv_block(j->kv, j->layer, step_kv_block(j->step, row, index), head),
                            (size_t)(index % KV_BLOCK)};
}

static uint16_t *key_pair(const struct kv_slot *p, size_t d)
{
    return p->block + (d / 2 * KV_BLOCK + p->index) * 2;
}

static uint16_t *value_pairs(const struct kv_slot *p, size_t dim)
{
    return p->block + dim * KV_BLOCK + p->index / 2 * 2 * dim;
}

/* Prefetches a slot: each pair of a key's columns is in a different cache line, last touched by the
 * previous step. */
static void prefetch_kv_slot(const struct kv_slot *p, size_t dim)
{
    for (size_t d = 0; d < dim; d += 2)
        __builtin_prefetch(key_pair(p, d), 1);
    for (size_t d = 0; d < dim; d += 16)
        __builtin_prefetch(value_pairs(p, dim) + 2 * d, 1);
}

static void append_head(const struct qkv_job *j, const struct kv_slot *p, const float *k,
                        const float *v)
{
    const size_t dim = (size_t)j->shape->head_dim;
    uint16_t packed[EY_MAX_HEAD_DIM], *values = value_pairs(p, dim) + p->index % 2;
    j->c->k->rows->to_bf16(packed, k, dim);
    for (size_t d = 0; d < dim; d += 2)
        memcpy(key_pair(p, d), packed + d, 2 * sizeof(*packed));
    j->c->k->rows->to_bf16(packed, v, dim);
    for (size_t d = 0; d < dim; d++)
        values[2 * d] = packed[d];
}

/* Processes items; an item is a KV head of a row with its queries. Items are dealt to threads as in
 * cpu_attention(), so that the thread that writes a key reads it next. */
static void qkv_items(void *context, size_t begin, size_t end, int thread)
{
    const struct qkv_job *j = context;
    const size_t n_kv = (size_t)j->shape->n_kv_heads, dim = (size_t)j->shape->head_dim,
                 group = (size_t)j->group;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        const int row = (int)(i / n_kv);
        const struct kv_slot place = kv_slot_of(j, row, (int)(i % n_kv));
        prefetch_kv_slot(&place, dim);
        for (size_t h = 0; h < group; h++)
            cpu_norm_and_rope(j, j->q + (i * group + h) * dim, j->q_norm, row);
        cpu_norm_and_rope(j, j->k + i * dim, j->k_norm, row);
        append_head(j, &place, j->k + i * dim, j->v + i * dim);
    }
}

static struct cpu_input rms_input(struct cpu *c, const float *x, const struct placed *norm, int n,
                                  float eps)
{
    size_t width = (size_t)cpu_tensor(norm)->cols;
    return (struct cpu_input){.x = x,
                              .x_stride = width,
                              .n = n,
                              .width = (int)width,
                              .norm = CPU_RMS_NORM,
                              .w = cpu_vector(c, 0, norm),
                              .eps = eps};
}

static const float *bias_of(struct cpu *c, int slot, const struct placed *bias)
{
    return bias ? cpu_vector(c, slot, bias) : NULL;
}

void cpu_qkv(struct backend *be, dev q, struct kv_cache *kv, int layer, dev x,
             const struct attention *w, const struct text_shape *shape, dev rope,
             const struct step *step)
{
    struct cpu *c = cpu_of(be);
    size_t kv_width = (size_t)text_kv_width(shape);
    float *k = c->rows[1], *v = k + (size_t)step->n_rows * kv_width; /* max_width covers both */
    struct cpu_input in = rms_input(c, x, w->input_norm, step->n_rows, shape->norm_eps);
    struct cpu_linear linears[3] = {
        {cpu_weight_of(w->q), bias_of(c, 1, w->q_bias), q, (size_t)text_q_width(shape)},
        {cpu_weight_of(w->k), bias_of(c, 2, w->k_bias), k, kv_width},
        {cpu_weight_of(w->v), bias_of(c, 3, w->v_bias), v, kv_width}};
    cpu_matmul(c, &in, linears, 3, CPU_STORE);
    struct qkv_job job = {c,
                          q,
                          k,
                          v,
                          w->q_norm ? cpu_vector(c, 1, w->q_norm) : NULL,
                          w->k_norm ? cpu_vector(c, 2, w->k_norm) : NULL,
                          rope,
                          kv,
                          layer,
                          shape->n_heads / shape->n_kv_heads,
                          shape,
                          step};
    pool_run_ranges(c->pool, (size_t)step->n_rows * (size_t)shape->n_kv_heads, QKV_PIECE, QKV_LEAST,
                    qkv_items, &job);
}

/* ---- attention ---- */

void cpu_attention_start(struct attention_tile *t, struct cpu_attention_scratch *s, int n, int dim)
{
    size_t stride = ((size_t)dim + CPU_HEAD_PAD - 1) / CPU_HEAD_PAD * CPU_HEAD_PAD;
    *t = (struct attention_tile){
        .n_rows = n, .dim = dim, .scratch = s->packed_q, .o = s->o, .o_stride = stride};
    memset(s->o, 0, (size_t)n * stride * sizeof(float));
    for (int r = 0; r < n; r++) {
        t->q[r] = s->q + (size_t)r * stride;
        t->max[r] = -1e30f;
    }
}

void cpu_attention_finish(float *out, const struct attention_tile *t, int r)
{
    const float *o = t->o + (size_t)r * t->o_stride;
    for (int d = 0; d < t->dim; d++)
        out[d] = o[d] / t->sum[r];
}

enum { ATTENTION_PIECE = 4 /* consecutive items of a thread */ };

struct attention_job {
    struct cpu *c;
    float *o;
    const float *q;
    const struct kv_cache *kv;
    int layer;
    const struct text_shape *shape;
    const struct step *step;
    int group;         /* query heads per KV head */
    int rows_per_tile; /* rows of a tile, which has rows x group queries */
    size_t n_items;
};

/* A tile of queries of one KV head. The queries of rows from `first` on, which are of one sequence,
 * are numbered: query u is head u % group of row first + u / group. */
struct query_tile {
    int first, head, first_query; /* first_query: index of the tile's first query */
};

static int query_row(const struct attention_job *j, const struct query_tile *p, int r)
{
    return p->first + (p->first_query + r) / j->group;
}

static size_t query_offset(const struct attention_job *j, const struct query_tile *p, int r)
{
    size_t head = (size_t)(p->head * j->group + (p->first_query + r) % j->group);
    return ((size_t)query_row(j, p, r) * (size_t)j->shape->n_heads + head) *
           (size_t)j->shape->head_dim;
}

static int visible_keys(int index, int block)
{
    int n = index + 1 - block * KV_BLOCK;
    return n < 0 ? 0 : n > KV_BLOCK ? KV_BLOCK : n;
}

static const uint16_t *keys_of(const struct attention_job *j, const struct query_tile *p, int block)
{
    return cpu_kv_block(j->kv, j->layer, step_kv_block(j->step, p->first, block * KV_BLOCK),
                        p->head);
}

/* Attends to a block of keys; rows with a sliding window skip its first keys. */
static void attend_kv_block(const struct attention_job *j, const struct query_tile *p,
                            struct attention_tile *t, int block)
{
    const size_t dim = (size_t)j->shape->head_dim;
    const uint16_t *keys = keys_of(j, p, block);
    for (int r = 0; r < t->n_rows; r++) {
        int index = j->step->row_slot[query_row(j, p, r)],
            before = text_first_key(j->shape, index) - block * KV_BLOCK;
        t->first_key[r] = before < 0 ? 0 : before;
        t->end_key[r] = visible_keys(index, block);
        if (t->first_key[r] >= t->end_key[r]) t->first_key[r] = t->end_key[r] = 0;
    }
    j->c->k->attention(t, keys, keys + dim * KV_BLOCK, KV_LAYOUT_BF16);
}

/* `after`: keys that are probably read next and so prefetched, or NULL. */
static void attend_query_tile(const struct attention_job *j, const struct query_tile *p, int n,
                              const uint16_t *after, struct cpu_attention_scratch *scratch)
{
    struct attention_tile t;
    int first = INT_MAX, last = 0, dim = j->shape->head_dim;
    float scale = 1.0f / sqrtf((float)dim);
    cpu_attention_start(&t, scratch, n, dim);
    for (int r = 0; r < n; r++) {
        const float *from = j->q + query_offset(j, p, r);
        float *to = (float *)t.q[r];
        for (int d = 0; d < dim; d++)
            to[d] = from[d] * scale;
        int index = j->step->row_slot[query_row(j, p, r)];
        int seen = text_first_key(j->shape, index);
        last = index > last ? index : last;
        first = seen < first ? seen : first;
    }
    for (int block = first / KV_BLOCK, end = last / KV_BLOCK; block <= end; block++) {
        t.next = block < end ? keys_of(j, p, block + 1) : after;
        attend_kv_block(j, p, &t, block);
    }
    for (int r = 0; r < n; r++)
        cpu_attention_finish(j->o + query_offset(j, p, r), &t, r);
}

/* Processes rows first .. end-1 in tiles; a tile ends at the sequence's end. A head group larger
 * than a tile is split. */
static void attend_query_tiles(const struct attention_job *j, int first, int end, int head,
                               const uint16_t *after, struct cpu_attention_scratch *scratch)
{
    for (int row = first, n; row < end; row += n) {
        for (n = 1; row + n < end && j->step->row_seq[row + n] == j->step->row_seq[row]; n++)
            continue;
        for (int from = 0, left = n * j->group; left > 0; from += CPU_Q_ROWS, left -= CPU_Q_ROWS)
            attend_query_tile(j, &(struct query_tile){row, head, from},
                              left < CPU_Q_ROWS ? left : CPU_Q_ROWS, row + n < end ? NULL : after,
                              scratch);
    }
}

/* Returns the first tile of an item, which is a KV head of a tile's rows. */
static struct query_tile first_query_tile(const struct attention_job *j, size_t item)
{
    const size_t heads = (size_t)j->shape->n_kv_heads;
    return (struct query_tile){(int)(item / heads) * j->rows_per_tile, (int)(item % heads), 0};
}

static const uint16_t *first_keys(const struct attention_job *j, size_t item)
{
    const struct query_tile p = first_query_tile(j, item);
    const int seen = text_first_key(j->shape, j->step->row_slot[p.first]);
    return keys_of(j, &p, seen / KV_BLOCK);
}

static void cpu_attention_items(void *context, size_t begin, size_t end, int thread)
{
    const struct attention_job *j = context;
    for (size_t i = begin; i < end; i++) {
        const struct query_tile p = first_query_tile(j, i);
        int last = p.first + j->rows_per_tile < j->step->n_rows ? p.first + j->rows_per_tile
                                                                : j->step->n_rows;
        attend_query_tiles(j, p.first, last, p.head,
                           i + 1 < j->n_items ? first_keys(j, i + 1) : NULL,
                           cpu_scratch(j->c, thread));
    }
}

void cpu_attention(struct backend *be, dev o, dev q, const struct kv_cache *kv, int layer,
                   const struct text_shape *shape, const struct step *step)
{
    int group = shape->n_heads / shape->n_kv_heads, rows = CPU_Q_ROWS / group;
    struct attention_job job = {cpu_of(be),          o, q, kv, layer, shape, step, group,
                                rows < 1 ? 1 : rows, 0};
    size_t tiles = ((size_t)step->n_rows + (size_t)job.rows_per_tile - 1) /
                   (size_t)job.rows_per_tile;
    job.n_items = tiles * (size_t)shape->n_kv_heads;
    pool_run_ranges(job.c->pool, job.n_items, ATTENTION_PIECE, 1, cpu_attention_items, &job);
}

/* ---- the rest ---- */

void cpu_project_add(struct backend *be, dev x, dev in, const struct placed *w, int n, int n_prompt)
{
    struct cpu *c = cpu_of(be);
    (void)n_prompt; /* prompt rows are not special here */
    struct cpu_input input = {.x = in,
                              .x_stride = (size_t)cpu_tensor(w)->cols,
                              .n = n,
                              .width = (int)cpu_tensor(w)->cols};
    struct cpu_linear linear = {cpu_weight_of(w), NULL, x, (size_t)cpu_tensor(w)->rows};
    cpu_matmul(c, &input, &linear, 1, CPU_ADD);
}

void cpu_gate_up(struct backend *be, dev h, dev x, const struct mlp *w,
                 const struct text_shape *shape, int n, int n_prompt)
{
    struct cpu *c = cpu_of(be);
    (void)n_prompt; /* prompt rows are not special here */
    size_t mlp = (size_t)shape->mlp;
    struct cpu_input in = rms_input(c, x, w->post_norm, n, shape->norm_eps);
    struct cpu_linear linears[2] = {{cpu_weight_of(w->gate), NULL, h, mlp},
                                    {cpu_weight_of(w->up), NULL, c->rows[1], mlp}};
    cpu_matmul(c, &in, linears, 2, CPU_SILU_MUL);
}

/* Computes as many rows at a time as GEMV takes on every tier; the scales of weight rows are
 * applied last. */
static void int8_lm_head(struct cpu *c, float *logits, const struct cpu_input *in,
                         const struct cpu_weight *head)
{
    const size_t n_logits = (size_t)head->m.tensor.rows;
    const float *scale = head->m.tensor.scale;
    struct cpu_weight quantized = *head;
    quantized.m.tensor.scale = NULL;
    for (int first = 0; first < in->n; first += CPU_GEMV_ROWS) {
        struct cpu_input some = *in;
        some.x += (size_t)first * in->x_stride;
        some.n = in->n - first < CPU_GEMV_ROWS ? in->n - first : CPU_GEMV_ROWS;
        struct cpu_linear linear = {&quantized, NULL, logits + (size_t)first * n_logits, n_logits};
        cpu_matmul(c, &some, &linear, 1, CPU_STORE);
    }
    for (int i = 0; i < in->n; i++)
        for (size_t r = 0; r < n_logits; r++)
            logits[(size_t)i * n_logits + r] *= scale[r];
}

void cpu_lm_head(struct backend *be, float *logits, dev x, const int32_t *rows, int n,
                 const struct placed *norm, const struct placed *head,
                 const struct text_shape *shape)
{
    struct cpu *c = cpu_of(be);
    size_t hidden = (size_t)shape->hidden;
    for (int i = 0; i < n; i++)
        memcpy(c->rows[1] + (size_t)i * hidden, (const float *)x + (size_t)rows[i] * hidden,
               hidden * sizeof(float));
    struct cpu_input in = rms_input(c, c->rows[1], norm, n, shape->norm_eps);
    if (cpu_tensor(head)->dtype == DTYPE_I8) {
        int8_lm_head(c, logits, &in, cpu_weight_of(head));
        return;
    }
    struct cpu_linear linear = {cpu_weight_of(head), NULL, logits, (size_t)cpu_tensor(head)->rows};
    cpu_matmul(c, &in, &linear, 1, CPU_STORE);
}
