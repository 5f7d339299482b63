/* SPDX-License-Identifier: Apache-2.0 */
/* The text model's steps in float32, as in spec 3. Each step is one loop over rows, divided among
 * threads. */
#include <math.h>
#include <string.h>

#include "backend/fp8_activations.h"
#include "backend/ref/ref_backend.h"

void ref_embed(struct backend *be, dev x, const struct placed *table, dev features,
               const struct step *step)
{
    (void)be;
    size_t hidden = (size_t)ref_tensor(table)->cols;
    for (int i = 0; i < step->n_rows; i++) {
        float *row = (float *)x + (size_t)i * hidden;
        if (step->feature[i] >= 0)
            memcpy(row, (const float *)features + (size_t)step->feature[i] * hidden,
                   hidden * sizeof(float));
        else
            ref_weight_row(row, table, step->token[i]);
    }
}

void ref_rope_table(struct backend *be, dev table, const struct rope *rope, const int32_t *position,
                    int n)
{
    (void)be;
    float *out = table;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < rope->n_pairs; j++, out += 2) {
            float angle = (float)position[3 * i + rope->axis[j]] * rope->frequency[j];
            out[0] = cosf(angle);
            out[1] = sinf(angle);
        }
    }
}

void ref_rms_norm(float *y, const float *x, const float *w, int n, float eps)
{
    float scale = 1.0f / sqrtf(ref_dot(x, x, (size_t)n) / (float)n + eps);
    for (int i = 0; i < n; i++)
        y[i] = w[i] * (x[i] * scale);
}

static void ref_norm_rows(struct ref *r, float *y, const float *x, const struct placed *w, int n,
                          float eps)
{
    const float *weight = ref_vector(r, 0, w);
    for (int i = 0; i < n; i++) {
        size_t row = (size_t)i * (size_t)ref_tensor(w)->cols;
        ref_rms_norm(y + row, x + row, weight, (int)ref_tensor(w)->cols, eps);
    }
}

void ref_apply_rope(float *head, const float *table, int n_pairs)
{
    for (int i = 0; i < n_pairs; i++) {
        float a = head[i], b = head[i + n_pairs], c = table[2 * i], s = table[2 * i + 1];
        head[i] = a * c - b * s;
        head[i + n_pairs] = b * c + a * s;
    }
}

/* Norms each head of rows [n, heads·dim] if the model has a norm for it, then rotates it. */
static void ref_norm_and_rope_heads(struct ref *r, float *rows, const struct placed *norm,
                                    const float *rope, int n, int heads,
                                    const struct text_shape *shape)
{
    const float *weight = norm ? ref_vector(r, 0, norm) : NULL;
    int dim = shape->head_dim;
    for (int i = 0; i < n * heads; i++) {
        float *head = rows + (size_t)i * (size_t)dim;
        if (weight) ref_rms_norm(head, head, weight, dim, shape->norm_eps);
        ref_apply_rope(head, rope + (size_t)(i / heads) * (size_t)dim, dim / 2);
    }
}

/* Returns a block of the cache, which is [layer, block, k or v, kv head, KV_BLOCK, head_dim]
 * floats. */
static float *ref_kv_block(const struct kv_cache *kv, int layer, int block, int which, int head)
{
    const struct kv_shape *s = &kv->shape;
    size_t i = ((((size_t)layer * (size_t)s->n_blocks + (size_t)block) * 2 + (size_t)which) *
                    (size_t)s->n_kv_heads +
                (size_t)head) *
               KV_BLOCK * (size_t)s->head_dim;
    return (float *)kv->data + i;
}

static void append_kv(struct kv_cache *kv, int layer, int which, const float *rows,
                      const struct step *step)
{
    size_t dim = (size_t)kv->shape.head_dim;
    for (int i = 0; i < step->n_rows; i++) {
        int index = step->row_slot[i], block = step_kv_block(step, i, index);
        for (int h = 0; h < kv->shape.n_kv_heads; h++) {
            float *to = ref_kv_block(kv, layer, block, which, h) + (size_t)(index % KV_BLOCK) * dim;
            memcpy(to, rows + ((size_t)i * (size_t)kv->shape.n_kv_heads + (size_t)h) * dim,
                   dim * sizeof(float));
        }
    }
}

/* Rounds the last n_prompt of the n activation rows that w multiplies, if limits.fp8_prompts is
 * on. */
static void round_prompts(const struct ref *r, float *rows, const struct placed *w, int n,
                          int n_prompt)
{
    const struct tensor *t = ref_tensor(w);
    if (!r->limits.fp8_prompts || t->dtype != DTYPE_F8_E4M3 || t->row_scale) return;
    for (int i = n - n_prompt; i < n; i++)
        round_activations(rows + (size_t)i * (size_t)t->cols, (size_t)t->cols);
}

void ref_qkv(struct backend *be, dev q, struct kv_cache *kv, int layer, dev x,
             const struct attention *w, const struct text_shape *shape, dev rope,
             const struct step *step)
{
    struct ref *r = ref_of(be);
    int n = step->n_rows;
    size_t q_width = (size_t)text_q_width(shape), kv_width = (size_t)text_kv_width(shape);
    float *normed = r->rows[0], *k = r->rows[1], *v = r->rows[2];
    ref_norm_rows(r, normed, x, w->input_norm, n, shape->norm_eps);
    round_prompts(r, normed, w->q, n, step_prompt_rows(step));
    ref_linear(r, q, q_width, normed, w->q, w->q_bias, n);
    ref_linear(r, k, kv_width, normed, w->k, w->k_bias, n);
    ref_linear(r, v, kv_width, normed, w->v, w->v_bias, n);
    ref_norm_and_rope_heads(r, q, w->q_norm, rope, n, shape->n_heads, shape);
    ref_norm_and_rope_heads(r, k, w->k_norm, rope, n, shape->n_kv_heads, shape);
    append_kv(kv, layer, 0, k, step);
    append_kv(kv, layer, 1, v, step);
}

struct ref_attention_job {
    struct ref *r;
    float *o;
    const float *q;
    const struct kv_cache *kv;
    int layer;
    const struct text_shape *shape;
    const struct step *step;
};

void ref_softmax(float *scores, int n)
{
    float max = scores[0], sum = 0;
    for (int i = 1; i < n; i++)
        max = scores[i] > max ? scores[i] : max;
    for (int i = 0; i < n; i++)
        sum += scores[i] = expf(scores[i] - max);
    for (int i = 0; i < n; i++)
        scores[i] /= sum;
}

/* Returns the keys (0) or values (1) of a row's slots from `slot` to the end of its block; `count`
 * of them are before `end`. */
static const float *ref_kv_rows(const struct ref_attention_job *a, int row, int which, int kv_head,
                                int slot, int end, int *count)
{
    const float *block = ref_kv_block(a->kv, a->layer, step_kv_block(a->step, row, slot), which,
                                      kv_head);
    int left = KV_BLOCK - slot % KV_BLOCK;
    *count = end - slot < left ? end - slot : left;
    return block + (size_t)(slot % KV_BLOCK) * (size_t)a->shape->head_dim;
}

static void ref_attention_head(const struct ref_attention_job *a, int row, int head, float *scores)
{
    int kv_head = head / (a->shape->n_heads / a->shape->n_kv_heads), count;
    int index = a->step->row_slot[row], first = text_first_key(a->shape, index),
        n_keys = index + 1 - first;
    size_t dim = (size_t)a->shape->head_dim,
           at = ((size_t)row * (size_t)a->shape->n_heads + (size_t)head) * dim;
    float *o = a->o + at, scale = 1.0f / sqrtf((float)dim);
    for (int slot = first; slot <= index; slot += count) {
        const float *keys = ref_kv_rows(a, row, 0, kv_head, slot, index + 1, &count);
        ref_dots(scores + slot - first, a->q + at, keys, dim, dim, count);
    }
    for (int j = 0; j < n_keys; j++)
        scores[j] *= scale;
    ref_softmax(scores, n_keys);
    memset(o, 0, dim * sizeof(float));
    for (int slot = first; slot <= index; slot += count) {
        const float *values = ref_kv_rows(a, row, 1, kv_head, slot, index + 1, &count);
        ref_add_rows(o, scores + slot - first, values, dim, dim, count);
    }
}

static void ref_attention_items(void *context, size_t begin, size_t end, int thread)
{
    const struct ref_attention_job *a = context;
    float *scores = a->r->scores + (size_t)thread * (size_t)a->r->limits.max_keys;
    for (size_t i = begin; i < end; i++)
        ref_attention_head(a, (int)(i / (size_t)a->shape->n_heads),
                           (int)(i % (size_t)a->shape->n_heads), scores);
}

void ref_attention(struct backend *be, dev o, dev q, const struct kv_cache *kv, int layer,
                   const struct text_shape *shape, const struct step *step)
{
    struct ref_attention_job a = {ref_of(be), o, q, kv, layer, shape, step};
    pool_run(a.r->pool, (size_t)step->n_rows * (size_t)shape->n_heads, 1, ref_attention_items, &a);
}

void ref_project_add(struct backend *be, dev x, dev in, const struct placed *w, int n, int n_prompt)
{
    struct ref *r = ref_of(be);
    float *y = r->rows[0], *out = x, *input = r->rows[1];
    memcpy(input, in, (size_t)n * (size_t)ref_tensor(w)->cols * sizeof(float));
    round_prompts(r, input, w, n, n_prompt);
    ref_linear(r, y, (size_t)ref_tensor(w)->rows, input, w, NULL, n);
    for (size_t i = 0; i < (size_t)n * (size_t)ref_tensor(w)->rows; i++)
        out[i] += y[i];
}

void ref_gate_up(struct backend *be, dev h, dev x, const struct mlp *w,
                 const struct text_shape *shape, int n, int n_prompt)
{
    struct ref *r = ref_of(be);
    float *normed = r->rows[0], *up = r->rows[1], *gate = h;
    ref_norm_rows(r, normed, x, w->post_norm, n, shape->norm_eps);
    round_prompts(r, normed, w->gate, n, n_prompt);
    ref_linear(r, gate, (size_t)shape->mlp, normed, w->gate, NULL, n);
    ref_linear(r, up, (size_t)shape->mlp, normed, w->up, NULL, n);
    for (size_t i = 0; i < (size_t)n * (size_t)shape->mlp; i++)
        gate[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}

void ref_lm_head(struct backend *be, float *logits, dev x, const int32_t *rows, int n,
                 const struct placed *norm, const struct placed *head,
                 const struct text_shape *shape)
{
    struct ref *r = ref_of(be);
    size_t hidden = (size_t)shape->hidden;
    const float *weight = ref_vector(r, 0, norm);
    for (int i = 0; i < n; i++)
        ref_rms_norm(r->rows[0] + (size_t)i * hidden, (const float *)x + (size_t)rows[i] * hidden,
                     weight, shape->hidden, shape->norm_eps);
    ref_linear(r, logits, (size_t)ref_tensor(head)->rows, r->rows[0], head, NULL, n);
}
