/* SPDX-License-Identifier: Apache-2.0 */
/* Launches the text model's steps. */
#include <math.h>
#include <string.h>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_kernel_ids.h"
#include "backend/cuda/cuda_matmul.h"
#include "kernels/cuda/attention/attention_launch.h"
#include "kernels/cuda/rows/norm_rope_embed_launch.h"
#include "kernels/cuda/sampling/rescore_launch.h"
#include "kernels/cuda/sampling/topk_launch.h"

/* ---- in ---- */

void cuda_embed(struct backend *be, dev x, const struct placed *table, dev features,
                const struct step *step)
{
    struct cuda *c = cuda_of(be);
    const struct step_region *r = cuda_step(c, step);
    const bool on_host = cuda_weight_of(table)->in_file;
    const void *pinned = on_host ? cuda_pinned_address(c, c->host_embedding.data) : NULL;
    struct embed_args a = {.x = x,
                           .features = features,
                           .token = r->device,
                           .feature = r->device + r->layout.feature,
                           .n = step->n_rows,
                           .hidden = cuda_cols(table)};
    if (!on_host || pinned) {
        a.table = cuda_dev_matrix(c, table);
        if (pinned) a.table.data = pinned;
    } else {
        if (!c->capturing) cuda_look_up_embeddings(c, step);
        a.host_rows = (const bf16 *)(void *)c->scratch[SCRATCH_WIDE];
    }
    struct launch l = embed_launch(&a);
    cuda_launch(c, &l, &a);
}

/* Returns positions on the GPU: the step's are already there, an image's are uploaded. */
static const int32_t *positions_on_gpu(struct cuda *c, const int32_t *position, int n)
{
    const struct step_region *regions[] = {&c->small, &c->large};
    if (c->capturing) return c->small.device + c->small.layout.position;
    for (int i = 0; i < 2; i++)
        if (regions[i]->copied.n_rows == n && regions[i]->copied.position == position)
            return regions[i]->device + regions[i]->layout.position;
    cuda_upload(c, c->scratch[SCRATCH_POSITIONS], position, (size_t)n * 3 * sizeof(*position));
    return (const int32_t *)(void *)c->scratch[SCRATCH_POSITIONS];
}

void cuda_rope_table(struct backend *be, dev table, const struct rope *rope,
                     const int32_t *position, int n)
{
    struct cuda *c = cuda_of(be);
    struct rope_args a = {.table = table,
                          .position = positions_on_gpu(c, position, n),
                          .n = n,
                          .n_pairs = rope->n_pairs};
    memcpy(a.frequency, rope->frequency, (size_t)rope->n_pairs * sizeof(float));
    memcpy(a.axis, rope->axis, (size_t)rope->n_pairs);
    struct launch l = rope_launch(&a);
    cuda_launch(c, &l, &a);
}

/* ---- attention ---- */

static struct kv_layer kv_layer_of(const struct kv_cache *kv, int layer)
{
    struct kv_shape one = kv->shape;
    one.n_layers = 1;
    return (struct kv_layer){(char *)kv->data + (size_t)layer * cuda_kv_bytes(NULL, &one),
                             kv->shape.n_kv_heads, kv->shape.head_dim, kv->shape.fp8};
}

/* Computes raw q, k, v as out f32[n, q + 2 kv] from the normed x. They stay float32, so that q and
 * k are not rounded before their norms. */
static void matmul_qkv(struct cuda *c, float *out, const void *x, const struct attention *w,
                       const struct text_shape *s, int n, int n_prompt)
{
    size_t q = (size_t)text_q_width(s), kv = (size_t)text_kv_width(s);
    struct cuda_matmul_desc p = {.w = {w->q, w->k, w->v},
                                 .bias = {w->q_bias, w->k_bias, w->v_bias},
                                 .y = {out, out + q, out + q + kv},
                                 .n_segments = 3,
                                 .epilogue = EPI_F32,
                                 .x = x,
                                 .n = n,
                                 .k = s->hidden,
                                 .norm = w->input_norm,
                                 .eps = s->norm_eps,
                                 .ldy = (int)(q + 2 * kv),
                                 .n_prompt = n_prompt};
    cuda_matmul(c, &p);
}

void cuda_qkv(struct backend *be, dev q, struct kv_cache *kv, int layer, dev x,
              const struct attention *w, const struct text_shape *s, dev rope,
              const struct step *step)
{
    struct cuda *c = cuda_of(be);
    const struct step_region *r = cuda_step(c, step);
    float *raw = (float *)(void *)c->scratch[SCRATCH_WIDE];
    for (int first = 0; first < step->n_rows; first += RAW_ROWS) {
        size_t at = (size_t)first;
        struct dev_batch rows = cuda_dev_batch(r, step);
        rows.seq += first;
        rows.index += first;
        rows.n = step->n_rows - first < RAW_ROWS ? step->n_rows - first : RAW_ROWS;
        int prompts = first + rows.n -
                      (step->n_rows - step_prompt_rows(step)); /* prompt rows among these rows */
        matmul_qkv(c, raw, (float *)x + at * (size_t)s->hidden, w, s, rows.n,
                   prompts < 0        ? 0
                   : prompts < rows.n ? prompts
                                      : rows.n);
        struct kv_append_args a = {(bf16 *)q + at * (size_t)text_q_width(s),
                                   raw,
                                   cuda_vector(w->q_norm),
                                   cuda_vector(w->k_norm),
                                   (float *)rope + at * (size_t)s->head_dim,
                                   kv_layer_of(kv, layer),
                                   rows,
                                   s->n_heads,
                                   s->norm_eps};
        struct launch l = kv_append_launch(&a);
        cuda_launch(c, &l, &a);
    }
}

void cuda_attention(struct backend *be, dev o, dev q, const struct kv_cache *kv, int layer,
                    const struct text_shape *s, const struct step *step)
{
    struct cuda *c = cuda_of(be);
    const struct step_region *r = cuda_step(c, step);
    struct attention_args a = {o,
                               q,
                               kv_layer_of(kv, layer),
                               cuda_dev_batch(r, step),
                               r->device + r->layout.tile,
                               cuda_attention_tiles(step),
                               s->n_heads,
                               1 / sqrtf((float)s->head_dim),
                               s->window};
    struct launch l = cuda_family_failed(c, cuda_attention_family(&a.kv))
                          ? attention_fallback_launch(&a)
                          : attention_launch(&a);
    cuda_launch(c, &l, &a);
}

_Static_assert((int)SMALL_ROWS <= (int)MANY_ROWS, "a decode step is one launch of attention");

/* Divides decode attention among blocks of threads. With one sequence, each block has a fixed
 * latency, so there are just enough blocks to fill the GPU. Several sequences may differ in length,
 * so their keys are divided together. */
static struct launch share_decode(const struct cuda *c, struct attention_decode_args *a)
{
    const int n_kv = a->kv.n_kv_heads, splits = c->sm_count / n_kv;
    if (a->batch.n > 1) {
        a->splits = decode_many_blocks(a->batch.n * n_kv, c->sm_count);
        return decode_many_launch(a);
    }
    a->splits = splits < 1 ? 1 : splits > MAX_SPLITS ? MAX_SPLITS : splits;
    return attention_decode_launch(a);
}

/* Runs qkv and attention as two operations if a sequence has several tokens, or if heads or a
 * window do not suit the decode kernel. */
void cuda_qkv_attention(struct backend *be, dev o, dev q, struct kv_cache *kv, int layer, dev x,
                        const struct attention *w, const struct text_shape *s, dev rope,
                        const struct step *step)
{
    struct cuda *c = cuda_of(be);
    struct kv_layer cache = kv_layer_of(kv, layer);
    if (!cuda_is_decode(step) || s->window || !attention_decode_supports(&cache, s->n_heads) ||
        cuda_family_failed(c, cuda_attention_decode_family(&cache))) {
        cuda_qkv(be, q, kv, layer, x, w, s, rope, step);
        cuda_attention(be, o, q, kv, layer, s, step);
        return;
    }
    const struct step_region *r = cuda_step(c, step);
    float *raw = (float *)(void *)c->scratch[SCRATCH_RAW];
    matmul_qkv(c, raw, x, w, s, step->n_rows, step_prompt_rows(step));
    struct attention_decode_args a = {.o = o,
                                      .qkv = raw,
                                      .q_norm = cuda_vector(w->q_norm),
                                      .k_norm = cuda_vector(w->k_norm),
                                      .rope = rope,
                                      .kv = cache,
                                      .batch = cuda_dev_batch(r, step),
                                      .partial = (float *)(void *)c->scratch[SCRATCH_PARTIAL],
                                      .arrived = (uint32_t *)(void *)c->scratch[SCRATCH_ARRIVED],
                                      .n_heads = s->n_heads,
                                      .scale = 1 / sqrtf((float)s->head_dim),
                                      .eps = s->norm_eps};
    struct launch l = share_decode(c, &a);
    cuda_launch(c, &l, &a);
}

/* ---- the rest of a layer ---- */

void cuda_project_add(struct backend *be, dev x, dev in, const struct placed *w, int n,
                      int n_prompt)
{
    struct cuda_matmul_desc p = {.w = {w},
                                 .y = {x},
                                 .n_segments = 1,
                                 .epilogue = EPI_ADD,
                                 .x = in,
                                 .n = n,
                                 .k = cuda_cols(w),
                                 .n_prompt = n_prompt};
    cuda_matmul(cuda_of(be), &p);
}

void cuda_gate_up(struct backend *be, dev h, dev x, const struct mlp *w, const struct text_shape *s,
                  int n, int n_prompt)
{
    struct cuda_matmul_desc p = {.w = {w->gate, w->up},
                                 .y = {h, h},
                                 .n_segments = 2,
                                 .epilogue = EPI_SILU,
                                 .x = x,
                                 .n = n,
                                 .k = s->hidden,
                                 .norm = w->post_norm,
                                 .eps = s->norm_eps,
                                 .n_prompt = n_prompt};
    cuda_matmul(cuda_of(be), &p);
}

void cuda_add_features(struct backend *be, dev x, dev features, const struct step *step, int hidden)
{
    struct cuda *c = cuda_of(be);
    bool any = false;
    for (int i = 0; !c->capturing && i < step->n_rows; i++)
        any |= step->feature[i] >= 0;
    if (!any) return;
    const struct step_region *r = cuda_step(c, step);
    struct add_features_args a = {x, features, r->device + r->layout.feature, step->n_rows, hidden};
    struct launch l = add_features_launch(&a);
    cuda_launch(c, &l, &a);
}

/* ---- out ---- */

/* Rescores the top-k logits of an 8-bit head from its BF16 rows. */
static void cuda_rescore(struct cuda *c, const float *x, const int32_t *rows, int n,
                         const struct placed *norm, float eps)
{
    const bf16 *bf16_rows = cuda_pinned_address(c, c->bf16_head.data);
    struct rescore_args a = {(struct topk_logit *)(void *)c->scratch[SCRATCH_STEP_OUTPUT],
                             (uint32_t *)(void *)c->scratch[SCRATCH_ARRIVED],
                             bf16_rows,
                             x,
                             cuda_vector(norm),
                             rows,
                             n,
                             (int32_t)c->bf16_head.cols,
                             eps};
    struct launch l = rescore_launch(&a);
    cuda_launch(c, &l, &a);
}

/* Returns the blocks of threads for a row of logits: half as many if the rows alone fill the
 * GPU. */
static int topk_parts(int n, int vocabulary)
{
    enum { MANY_LOGITS = 16 };
    return n >= MANY_LOGITS && vocabulary <= CUDA_MAX_VOCABULARY / 2 ? TOPK_PARTS / 2 : TOPK_PARTS;
}

/* Finds the top-k logits of each row. */
static void cuda_topk(struct cuda *c, const float *logits, int n, int vocabulary)
{
    char *output = c->scratch[SCRATCH_STEP_OUTPUT];
    struct topk_args a = {logits,
                          (struct topk_logit *)(void *)c->scratch[SCRATCH_TOPK_PART],
                          (float *)(void *)c->scratch[SCRATCH_TOPK_PART_SUM],
                          (struct topk_logit *)(void *)output,
                          (float *)(void *)(output + cuda_step_output_layout(&c->limits).log_sum),
                          n,
                          vocabulary,
                          topk_parts(n, vocabulary)};
    struct launch part = topk_part_launch(&a), merge = topk_merge_launch(&a);
    cuda_launch(c, &part, &a);
    cuda_launch(c, &merge, &a);
}

/* Returns row indices on the GPU: a captured step's are all rows in order, already in its region;
 * others are uploaded. */
static const int32_t *rows_on_gpu(struct cuda *c, const int32_t *rows, int n)
{
    if (c->capturing) return c->small.device + c->small.layout.logits_row;
    int32_t *device = c->large.device + c->large.layout.logits_row;
    cuda_upload(c, device, rows, (size_t)n * sizeof(*rows));
    return device;
}

/* Returns the most rows for which the head is read only once. */
static int head_rows(const struct cuda *c, const struct placed *head)
{
    const struct dev_matrix *w = &cuda_weight_of(head)->matrix;
    if (w->packed && w->dtype == K_BF16 && cuda_working_tile(c, K_BF16, GEMM_128x64) != GEMM_TILES)
        return SMALL_ROWS;
    return w->packed && !cuda_family_failed(c, cuda_small_family(w->dtype))
               ? cuda_few_rows(&c->limits)
               : LM_HEAD_ROWS;
}

void cuda_lm_head(struct backend *be, float *logits, dev x, const int32_t *rows, int n,
                  const struct placed *norm, const struct placed *head, const struct text_shape *s)
{
    struct cuda *c = cuda_of(be);
    const int32_t *device = rows_on_gpu(c, rows, n);
    const int most = head_rows(c, head);
    for (int first = 0, count; first < n; first += count) {
        count = n - first < most ? n - first : most;
        struct cuda_matmul_desc p = {.w = {head},
                                     .y = {logits + (size_t)first * (size_t)cuda_rows(head)},
                                     .n_segments = 1,
                                     .epilogue = EPI_F32,
                                     .x = x,
                                     .n = count,
                                     .k = s->hidden,
                                     .norm = norm,
                                     .eps = s->norm_eps,
                                     .gather = device + first};
        cuda_matmul(c, &p);
    }
    if (c->limits.max_logits < n) return;
    cuda_topk(c, logits, n, cuda_rows(head));
    if (cuda_weight_of(head)->matrix.dtype == K_INT8 && c->n_pinned_ranges)
        cuda_rescore(c, x, device, n, norm, s->norm_eps);
}

void cuda_read_topk(struct backend *be, struct topk_logits *out, int row)
{
    const struct cuda *c = cuda_of(be);
    const char *results = c->step_output[c->shown].results;
    const struct topk_logit *from = (const struct topk_logit *)(const void *)results +
                                    (size_t)row * TOPK;
    for (int i = 0; i < TOPK_LOGITS; i++)
        out->token[i] = (struct scored_token){from[i].logit, from[i].id};
    out->logsumexp = ((
        const float *)(const void *)(results + cuda_step_output_layout(&c->limits).log_sum))[row];
}
