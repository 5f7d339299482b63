/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder's steps as launches. */
#include <math.h>
#include <string.h>

#include "backend/convert.h"
#include "backend/cuda/attention_shape.h"
#include "backend/cuda/candidates_shape.h"
#include "backend/cuda/check.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/rows_shape.h"

/* ---- in ---- */

static float scale_of(const struct weight *table, size_t row, size_t col)
{
    return table->scale
               ? table
                     ->scale[row / FP8_BLOCK * (((size_t)table->cols + FP8_BLOCK - 1) / FP8_BLOCK) +
                             col / FP8_BLOCK]
               : 1;
}

static void host_row(bf16 *out, const struct weight *table, int32_t token)
{
    size_t hidden = (size_t)table->cols, size = dtype_size(table->dtype);
    const char *row = (const char *)table->data + (size_t)token * hidden * size;
    if (table->dtype == DTYPE_BF16) {
        memcpy(out, row, hidden * size);
        return;
    }
    for (size_t i = 0; i < hidden; i++) {
        float value;
        weight_floats(&value, row + i * size, table->dtype, 1);
        out[i] = nearest_bf16(value * scale_of(table, (size_t)token, i));
    }
}

/* Rows of an embedding that stays in the file, to where embed() reads them; a few at a time. */
void cuda_look_up(struct cuda *c, const struct batch *batch)
{
    const struct weight *table = c->host_table;
    bf16 piece[LOOK_UP_BYTES / sizeof(bf16)];
    int hidden = (int)table->cols,
        most = LOOK_UP_BYTES / (int)sizeof(bf16) / hidden; /* at least one: CUDA_MAX_HIDDEN */
    for (int first = 0, n; first < batch->n_rows; first += n) {
        n = batch->n_rows - first < most ? batch->n_rows - first : most;
        for (int i = 0; i < n; i++)
            if (batch->token[first + i] >= 0 && batch->feature[first + i] < 0)
                host_row(piece + (size_t)i * (size_t)hidden, table, batch->token[first + i]);
        cuda_upload(c, (bf16 *)(void *)c->scratch[SCRATCH_WIDE] + (size_t)first * (size_t)hidden,
                    piece, (size_t)n * (size_t)hidden * sizeof(bf16));
    }
}

void cuda_embed(struct backend *be, dev x, const struct weight *table, dev features,
                const struct batch *batch)
{
    struct cuda *c = cuda_of(be);
    const struct batch_region *r = cuda_batch(c, batch);
    bool on_host = c->host_table && c->host_table->data == table->data;
    const void *registered = on_host ? cuda_registered(c, table->data) : NULL;
    struct embed_args a = {.x = x,
                           .features = features,
                           .token = r->card,
                           .feature = r->card + r->layout.feature,
                           .n = batch->n_rows,
                           .hidden = (int32_t)table->cols};
    if (!on_host || registered) {
        a.table = cuda_matrix(c, table);
        if (registered) a.table.data = registered;
    } else {
        if (!c->recording) cuda_look_up(c, batch);
        a.host_rows = (const bf16 *)(void *)c->scratch[SCRATCH_WIDE];
    }
    struct launch l = embed_launch(&a);
    cuda_launch(c, &l, &a);
}

/* Positions of the batch lie on the card already; a picture's come with the call. */
static const int32_t *positions_on_card(struct cuda *c, const int32_t *position, int n)
{
    const struct batch_region *regions[] = {&c->small, &c->large};
    if (c->recording) return c->small.card + c->small.layout.position;
    for (int i = 0; i < 2; i++)
        if (regions[i]->copied.n_rows == n && regions[i]->copied.position == position)
            return regions[i]->card + regions[i]->layout.position;
    cuda_upload(c, c->scratch[SCRATCH_POSITIONS], position, (size_t)n * 3 * sizeof(*position));
    return (const int32_t *)(void *)c->scratch[SCRATCH_POSITIONS];
}

void cuda_rope_table(struct backend *be, dev table, const struct rope *rope,
                     const int32_t *position, int n)
{
    struct cuda *c = cuda_of(be);
    struct rope_args a = {.table = table,
                          .position = positions_on_card(c, position, n),
                          .n = n,
                          .n_pairs = rope->n_pairs};
    memcpy(a.frequency, rope->frequency, (size_t)rope->n_pairs * sizeof(float));
    memcpy(a.axis, rope->axis, (size_t)rope->n_pairs);
    struct launch l = rope_launch(&a);
    cuda_launch(c, &l, &a);
}

/* ---- attention ---- */

static struct kv_layer layer_of(const struct kv_cache *kv, int layer)
{
    struct kv_shape one = kv->shape;
    one.n_layers = 1;
    return (struct kv_layer){(char *)kv->data + (size_t)layer * cuda_kv_bytes(NULL, &one),
                             kv->shape.n_kv_heads, kv->shape.head_dim, kv->shape.fp8};
}

/* Raw q, k, v beside each other, out f32[n, q + 2 kv], from the normed x: rounded before the norms
 * of q and k, they would be twice. */
static void multiply_qkv(struct cuda *c, float *out, const void *x, const struct decoder_layer *w,
                         const struct text_shape *s, int n, int n_prompt)
{
    size_t q = (size_t)text_q_width(s), kv = (size_t)text_kv_width(s);
    struct product p = {.w = {&w->q, &w->k, &w->v},
                        .bias = {&w->q_bias, &w->k_bias, &w->v_bias},
                        .y = {out, out + q, out + q + kv},
                        .n_segments = 3,
                        .out = OUT_F32,
                        .x = x,
                        .n = n,
                        .k = s->hidden,
                        .norm = &w->input_norm,
                        .eps = s->norm_eps,
                        .ldy = (int)(q + 2 * kv),
                        .n_prompt = n_prompt};
    cuda_multiply(c, &p);
}

void cuda_qkv(struct backend *be, dev q, struct kv_cache *kv, int layer, dev x,
              const struct decoder_layer *w, const struct text_shape *s, dev rope,
              const struct batch *batch)
{
    struct cuda *c = cuda_of(be);
    const struct batch_region *r = cuda_batch(c, batch);
    float *raw = (float *)(void *)c->scratch[SCRATCH_WIDE];
    for (int first = 0; first < batch->n_rows; first += RAW_ROWS) {
        size_t at = (size_t)first;
        struct dev_batch rows = cuda_rows(r, batch);
        rows.seq += first;
        rows.index += first;
        rows.n = batch->n_rows - first < RAW_ROWS ? batch->n_rows - first : RAW_ROWS;
        int prompts = first + rows.n -
                      (batch->n_rows - batch->n_prompt); /* of these rows and before */
        multiply_qkv(c, raw, (float *)x + at * (size_t)s->hidden, w, s, rows.n,
                     prompts < 0        ? 0
                     : prompts < rows.n ? prompts
                                        : rows.n);
        struct append_args a = {(bf16 *)q + at * (size_t)text_q_width(s),
                                raw,
                                w->q_norm.data,
                                w->k_norm.data,
                                (float *)rope + at * (size_t)s->head_dim,
                                layer_of(kv, layer),
                                rows,
                                s->n_heads,
                                s->norm_eps};
        struct launch l = append_launch(&a);
        cuda_launch(c, &l, &a);
    }
}

void cuda_attend(struct backend *be, dev o, dev q, const struct kv_cache *kv, int layer,
                 const struct text_shape *s, const struct batch *batch)
{
    struct cuda *c = cuda_of(be);
    const struct batch_region *r = cuda_batch(c, batch);
    int n_tiles = c->recording ? batch->n_rows
                               : r->n_tiles; /* a recorded step has a row of each sequence */
    struct attend_args a = {o,
                            q,
                            layer_of(kv, layer),
                            cuda_rows(r, batch),
                            r->card + r->layout.tile,
                            n_tiles,
                            s->n_heads,
                            1 / sqrtf((float)s->head_dim),
                            s->window};
    struct launch l = cuda_failed(c, cuda_family_of_attend(&a.kv)) ? attend_plain_launch(&a)
                                                                   : attend_launch(&a);
    cuda_launch(c, &l, &a);
}

/* Enough blocks of threads for the card, and no more: each has some latency to pay. */
static int splits_for(const struct cuda *c, const struct text_shape *s, int n)
{
    int splits = c->sm_count / (s->n_kv_heads * n);
    return splits < 1 ? 1 : splits > MAX_SPLITS ? MAX_SPLITS : splits;
}

/* Several tokens of a sequence, or heads or a window that the decode kernel does not take: one step
 * after the other. */
void cuda_qkv_attend(struct backend *be, dev o, dev q, struct kv_cache *kv, int layer, dev x,
                     const struct decoder_layer *w, const struct text_shape *s, dev rope,
                     const struct batch *batch)
{
    struct cuda *c = cuda_of(be);
    struct kv_layer cache = layer_of(kv, layer);
    if (!cuda_is_decode(batch) || s->window || !decode_takes(&cache, s->n_heads) ||
        cuda_failed(c, cuda_family_of_decode(&cache))) {
        cuda_qkv(be, q, kv, layer, x, w, s, rope, batch);
        cuda_attend(be, o, q, kv, layer, s, batch);
        return;
    }
    const struct batch_region *r = cuda_batch(c, batch);
    float *raw = (float *)(void *)c->scratch[SCRATCH_RAW];
    multiply_qkv(c, raw, x, w, s, batch->n_rows, batch->n_prompt);
    struct decode_args a = {o,
                            raw,
                            w->q_norm.data,
                            w->k_norm.data,
                            rope,
                            cache,
                            cuda_rows(r, batch),
                            (float *)(void *)c->scratch[SCRATCH_PARTIAL],
                            (uint32_t *)(void *)c->scratch[SCRATCH_ARRIVED],
                            s->n_heads,
                            splits_for(c, s, batch->n_rows),
                            1 / sqrtf((float)s->head_dim),
                            s->norm_eps};
    struct launch l = decode_launch(&a);
    cuda_launch(c, &l, &a);
}

/* ---- the rest of a layer ---- */

void cuda_project_add(struct backend *be, dev x, dev in, const struct weight *w, int n,
                      int n_prompt)
{
    struct product p = {.w = {w},
                        .y = {x},
                        .n_segments = 1,
                        .out = OUT_ADD,
                        .x = in,
                        .n = n,
                        .k = (int)w->cols,
                        .n_prompt = n_prompt};
    cuda_multiply(cuda_of(be), &p);
}

void cuda_gate_up(struct backend *be, dev h, dev x, const struct decoder_layer *w,
                  const struct text_shape *s, int n, int n_prompt)
{
    struct product p = {.w = {&w->gate, &w->up},
                        .y = {h, h},
                        .n_segments = 2,
                        .out = OUT_SILU,
                        .x = x,
                        .n = n,
                        .k = s->hidden,
                        .norm = &w->post_norm,
                        .eps = s->norm_eps,
                        .n_prompt = n_prompt};
    cuda_multiply(cuda_of(be), &p);
}

void cuda_add_features(struct backend *be, dev x, dev features, const struct batch *batch,
                       int hidden)
{
    struct cuda *c = cuda_of(be);
    bool any = false;
    for (int i = 0; !c->recording && i < batch->n_rows; i++)
        any |= batch->feature[i] >= 0;
    if (!any) return;
    const struct batch_region *r = cuda_batch(c, batch);
    struct add_features_args a = {x, features, r->card + r->layout.feature, batch->n_rows, hidden};
    struct launch l = add_features_launch(&a);
    cuda_launch(c, &l, &a);
}

/* ---- out ---- */

/* The candidates of an 8-bit head again, from the rows that it was made of. */
static void score_again(struct cuda *c, const float *x, const int32_t *rows, int n,
                        const struct weight *norm, float eps)
{
    const bf16 *stored = cuda_registered(c, c->stored_head.data);
    struct exact_args a = {(struct candidate *)(void *)c->scratch[SCRATCH_OUTCOME],
                           (uint32_t *)(void *)c->scratch[SCRATCH_ARRIVED],
                           stored,
                           x,
                           norm->data,
                           rows,
                           n,
                           (int32_t)c->stored_head.cols,
                           eps};
    struct launch l = exact_launch(&a);
    cuda_launch(c, &l, &a);
}

/* The best of each row. */
static void find_best(struct cuda *c, const float *logits, int n, int vocabulary)
{
    char *outcome = c->scratch[SCRATCH_OUTCOME];
    struct candidates_args a = {
        logits,
        (struct candidate *)(void *)c->scratch[SCRATCH_PART],
        (float *)(void *)c->scratch[SCRATCH_PART_SUM],
        (struct candidate *)(void *)outcome,
        (float *)(void *)(outcome + cuda_outcome_layout(&c->limits).log_sum),
        n,
        vocabulary,
        CANDIDATE_PARTS};
    struct launch part = candidates_part_launch(&a), merge = candidates_merge_launch(&a);
    cuda_launch(c, &part, &a);
    cuda_launch(c, &merge, &a);
}

/* Which rows: of a decode step all, in order, as they lie in its region; otherwise they are sent.
 */
static const int32_t *rows_on_card(struct cuda *c, const int32_t *rows, int n)
{
    if (c->recording) return c->small.card + c->small.layout.out_rows;
    int32_t *card = c->large.card + c->large.layout.out_rows;
    cuda_upload(c, card, rows, (size_t)n * sizeof(*rows));
    return card;
}

void cuda_head(struct backend *be, float *logits, dev x, const int32_t *rows, int n,
               const struct weight *norm, const struct weight *head, const struct text_shape *s)
{
    struct cuda *c = cuda_of(be);
    const int32_t *card = rows_on_card(c, rows, n);
    for (int first = 0, count; first < n; first += count) {
        count = n - first < SMALL_ROWS ? n - first : SMALL_ROWS;
        struct product p = {.w = {head},
                            .y = {logits + (size_t)first * (size_t)head->rows},
                            .n_segments = 1,
                            .out = OUT_F32,
                            .x = x,
                            .n = count,
                            .k = s->hidden,
                            .norm = norm,
                            .eps = s->norm_eps,
                            .gather = card + first};
        cuda_multiply(c, &p);
    }
    if (c->limits.max_seqs < n) return;
    find_best(c, logits, n, (int)head->rows);
    if (head->dtype == DTYPE_I8 && c->n_registered) score_again(c, x, card, n, norm, s->norm_eps);
    if (!c->recording) cuda_send_outcome(c); /* of a recorded step it is sent when it is replayed */
}

void cuda_best(struct backend *be, struct best_logits *out, int row)
{
    const struct cuda *c = cuda_of(be);
    const char *results = c->outcome[c->shown].results;
    const struct candidate *from = (const struct candidate *)(const void *)results +
                                   (size_t)row * CANDIDATES;
    for (int i = 0; i < BEST_LOGITS; i++)
        out->token[i] = (struct scored_token){from[i].logit, from[i].id};
    out->log_sum = ((const float *)(const void *)(results +
                                                  cuda_outcome_layout(&c->limits).log_sum))[row];
}
