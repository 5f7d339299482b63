/* SPDX-License-Identifier: Apache-2.0 */
/* The vision encoder's steps in float32, as in spec 4. */
#include <math.h>
#include <string.h>

#include "backend/host_ops.h"
#include "backend/ref/ref_backend.h"

/* Returns the grid position of patch n, counted in merge-block order (spec 4.1). */
static void patch_position(int n, int cols, int merge, int *row, int *col)
{
    int group = merge * merge, block = n / group, inside = n % group, blocks_across = cols / merge;
    *row = block / blocks_across * merge + inside / merge;
    *col = block % blocks_across * merge + inside % merge;
}

static void ref_add_table_row(float *x, float *scratch, const struct placed *table, int row,
                              float factor)
{
    ref_weight_row(scratch, table, row);
    for (int64_t d = 0; d < ref_tensor(table)->cols; d++)
        x[d] += factor * scratch[d];
}

static void add_position(float *x, float *scratch, const struct placed *table, int side, int row,
                         int rows, int col, int cols)
{
    int y0, y1, x0, x1;
    float dy, dx;
    host_aligned_corner(row, rows, side, &y0, &y1, &dy);
    host_aligned_corner(col, cols, side, &x0, &x1, &dx);
    ref_add_table_row(x, scratch, table, y0 * side + x0, (1 - dy) * (1 - dx));
    ref_add_table_row(x, scratch, table, y0 * side + x1, (1 - dy) * dx);
    ref_add_table_row(x, scratch, table, y1 * side + x0, dy * (1 - dx));
    ref_add_table_row(x, scratch, table, y1 * side + x1, dy * dx);
}

void ref_patch_embed(struct backend *be, dev x, const float *pixels, const struct affine *w,
                     const struct placed *table, const struct vision_shape *shape, int rows,
                     int cols, int first, int n)
{
    struct ref *r = ref_of(be);
    size_t hidden = (size_t)shape->hidden;
    ref_linear(r, x, hidden, pixels, w->w, w->b, n);
    for (int i = 0; i < n; i++) {
        int row, col;
        patch_position(first + i, cols, shape->merge, &row, &col);
        add_position((float *)x + (size_t)i * hidden, r->rows[0], table, shape->position_side, row,
                     rows, col, cols);
    }
}

/* y[n, width] = LayerNorm(x[n, width]) with population variance. */
static void ref_layer_norm_rows(struct ref *r, float *y, const float *x,
                                const struct layer_norm *norm, int n, int width, float eps)
{
    const float *weight = ref_vector(r, 0, norm->w), *bias = ref_vector(r, 1, norm->b);
    for (int i = 0; i < n; i++, x += width, y += width) {
        double sum = 0, squares = 0;
        for (int d = 0; d < width; d++)
            sum += (double)x[d];
        float mean = (float)(sum / width);
        for (int d = 0; d < width; d++)
            squares += (double)(x[d] - mean) * (double)(x[d] - mean);
        float scale = 1.0f / sqrtf((float)(squares / width) + eps);
        for (int d = 0; d < width; d++)
            y[d] = (x[d] - mean) * scale * weight[d] + bias[d];
    }
}

void ref_vision_qkv(struct backend *be, dev qkv, dev x, const struct vision_block *w,
                    const struct vision_shape *shape, dev rope, int first, int n)
{
    struct ref *r = ref_of(be);
    size_t width = 3 * (size_t)shape->hidden, dim = (size_t)shape->head_dim;
    float *out = (float *)qkv + (size_t)first * width;
    ref_layer_norm_rows(r, r->rows[0], x, &w->norm1, n, shape->hidden, shape->norm_eps);
    ref_linear(r, out, width, r->rows[0], w->qkv.w, w->qkv.b, n);
    for (int i = 0; i < n; i++)
        for (int h = 0; h < 2 * shape->n_heads; h++) /* q heads, then k heads */
            ref_apply_rope(out + (size_t)i * width + (size_t)h * dim,
                           (const float *)rope + (size_t)i * dim, shape->head_dim / 2);
}

struct ref_vision_attention_job {
    struct ref *r;
    float *o;
    const float *qkv;
    const struct vision_shape *shape;
    int first, first_key, n_keys;
};

static void ref_vision_attention_head(const struct ref_vision_attention_job *a, int row, int head,
                                      float *scores)
{
    size_t hidden = (size_t)a->shape->hidden, dim = (size_t)a->shape->head_dim, stride = 3 * hidden,
           at = (size_t)head * dim;
    const float *q = a->qkv + (size_t)(a->first + row) * stride + at,
                *keys = a->qkv + (size_t)a->first_key * stride + hidden + at,
                *values = keys + hidden;
    float *o = a->o + (size_t)row * hidden + at, scale = 1.0f / sqrtf((float)dim);
    ref_dots(scores, q, keys, stride, dim, a->n_keys);
    for (int j = 0; j < a->n_keys; j++)
        scores[j] *= scale;
    ref_softmax(scores, a->n_keys);
    memset(o, 0, dim * sizeof(float));
    ref_add_rows(o, scores, values, stride, dim, a->n_keys);
}

static void ref_vision_attention_items(void *context, size_t begin, size_t end, int thread)
{
    const struct ref_vision_attention_job *a = context;
    float *scores = a->r->scores + (size_t)thread * (size_t)a->r->limits.max_keys;
    size_t heads = (size_t)a->shape->n_heads;
    for (size_t i = begin; i < end; i++)
        ref_vision_attention_head(a, (int)(i / heads), (int)(i % heads), scores);
}

void ref_vision_attention(struct backend *be, dev o, dev qkv, const struct vision_shape *shape,
                          const struct vision_segment *segments, int n_segments, int first, int n)
{
    struct ref *r = ref_of(be);
    for (int i = 0; i < n_segments; i++) {
        int from, rows = vision_segment_overlap(&segments[i], first, n, &from);
        struct ref_vision_attention_job a = {r,
                                             (float *)o +
                                                 (size_t)(from - first) * (size_t)shape->hidden,
                                             qkv,
                                             shape,
                                             from,
                                             segments[i].first,
                                             segments[i].rows * segments[i].cols};
        if (rows)
            pool_run(r->pool, (size_t)rows * (size_t)shape->n_heads, 4, ref_vision_attention_items,
                     &a);
    }
}

/* 0.5 z (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3))) */
static float ref_gelu_tanh(float z)
{
    return 0.5f * z * (1.0f + tanhf(0.7978845608028654f * (z + 0.044715f * z * z * z)));
}

static float ref_gelu_erf(float z)
{
    return 0.5f * z * (1.0f + erff(z * 0.7071067811865476f));
}

struct ref_gelu_job {
    float *x;
    bool exact;
};

static void gelu_items(void *context, size_t begin, size_t end, int thread)
{
    const struct ref_gelu_job *g = context;
    (void)thread;
    for (size_t i = begin; i < end; i++)
        g->x[i] = g->exact ? ref_gelu_erf(g->x[i]) : ref_gelu_tanh(g->x[i]);
}

void ref_vision_mlp(struct backend *be, dev h, dev x, const struct vision_block *w,
                    const struct vision_shape *shape, int n)
{
    struct ref *r = ref_of(be);
    ref_layer_norm_rows(r, r->rows[0], x, &w->norm2, n, shape->hidden, shape->norm_eps);
    ref_linear(r, h, (size_t)shape->mlp, r->rows[0], w->fc1.w, w->fc1.b, n);
    struct ref_gelu_job g = {h, false};
    pool_run(r->pool, (size_t)n * (size_t)shape->mlp, 4096, gelu_items, &g);
}

void ref_vision_project_add(struct backend *be, dev x, dev in, const struct affine *w, int n)
{
    struct ref *r = ref_of(be);
    float *y = r->rows[0], *out = x;
    ref_linear(r, y, (size_t)ref_tensor(w->w)->rows, in, w->w, w->b, n);
    for (size_t i = 0; i < (size_t)n * (size_t)ref_tensor(w->w)->rows; i++)
        out[i] += y[i];
}

void ref_merge(struct backend *be, dev out, dev x, const struct merger *w,
               const struct vision_shape *shape, int n)
{
    struct ref *r = ref_of(be);
    int group = vision_group(shape), wide = group * shape->hidden;
    float *normed = r->rows[0], *hidden = r->rows[1];
    if (w->norm_grouped)
        ref_layer_norm_rows(r, normed, x, &w->norm, n, wide, shape->norm_eps);
    else
        ref_layer_norm_rows(r, normed, x, &w->norm, n * group, shape->hidden, shape->norm_eps);
    ref_linear(r, hidden, (size_t)wide, normed, w->fc1.w, w->fc1.b, n);
    struct ref_gelu_job g = {hidden, true};
    pool_run(r->pool, (size_t)n * (size_t)wide, 4096, gelu_items, &g);
    ref_linear(r, out, (size_t)shape->out_hidden, hidden, w->fc2.w, w->fc2.b, n);
}
