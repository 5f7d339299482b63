/* SPDX-License-Identifier: Apache-2.0 */
/* The vision encoder's steps on the cpu backend. Queries, keys and values of all patches are stored
 * by head: queries [head, patch, dim], already multiplied by the softmax scale, keys [head, block
 * of 64 patches, dim, 64], values [head, patch, dim]. If image kernels are used, keys and values
 * have their layout instead. */
#include <math.h>
#include <string.h>

#include "tensor/dequantize.h"
#include "backend/host_ops.h"
#include "backend/cpu/cpu_backend.h"

static struct cpu_input vision_input(const float *x, int n, int width)
{
    return (struct cpu_input){.x = x, .x_stride = (size_t)width, .n = n, .width = width};
}

static struct cpu_input layer_norm_input(struct cpu *c, const float *x,
                                         const struct layer_norm *norm, int n, float eps)
{
    int width = (int)cpu_tensor(norm->w)->cols;
    return (struct cpu_input){.x = x,
                              .x_stride = (size_t)width,
                              .n = n,
                              .width = width,
                              .norm = CPU_LAYER_NORM,
                              .w = cpu_vector(c, 0, norm->w),
                              .b = cpu_vector(c, 1, norm->b),
                              .eps = eps};
}

static void multiply_affine(struct cpu *c, const struct cpu_input *in, const struct affine *w,
                            float *y, enum cpu_epilogue epilogue)
{
    struct cpu_linear linear = {cpu_weight_of(w->w), cpu_vector(c, 2, w->b), y,
                                (size_t)cpu_tensor(w->w)->rows};
    cpu_matmul(c, in, &linear, 1, epilogue);
}

/* ---- patches ---- */

struct position_job {
    struct cpu *c;
    float *x;
    const struct placed *table;
    const struct vision_shape *shape;
    int rows, cols, first;
};

static void cpu_add_table_row(const struct position_job *j, float *x, float *scratch, int row,
                              float factor)
{
    size_t n = (size_t)cpu_tensor(j->table)->cols;
    j->c->k->rows->dequantize_row(scratch, &cpu_weight_of(j->table)->m, row);
    for (size_t d = 0; d < n; d++)
        x[d] += factor * scratch[d];
}

static void position_rows(void *context, size_t begin, size_t end, int thread)
{
    const struct position_job *j = context;
    int merge = j->shape->merge, group = merge * merge, across = j->cols / merge,
        side = j->shape->position_side;
    float *scratch = cpu_scratch(j->c, thread);
    for (size_t i = begin; i < end; i++) {
        int n = j->first + (int)i, block = n / group, inside = n % group, y0, y1, x0, x1;
        float dy, dx, *x = j->x + i * (size_t)j->shape->hidden;
        host_aligned_corner(block / across * merge + inside / merge, j->rows, side, &y0, &y1, &dy);
        host_aligned_corner(block % across * merge + inside % merge, j->cols, side, &x0, &x1, &dx);
        cpu_add_table_row(j, x, scratch, y0 * side + x0, (1 - dy) * (1 - dx));
        cpu_add_table_row(j, x, scratch, y0 * side + x1, (1 - dy) * dx);
        cpu_add_table_row(j, x, scratch, y1 * side + x0, dy * (1 - dx));
        cpu_add_table_row(j, x, scratch, y1 * side + x1, dy * dx);
    }
}

void cpu_patch_embed(struct backend *be, dev x, const float *pixels, const struct affine *w,
                     const struct placed *table, const struct vision_shape *shape, int rows,
                     int cols, int first, int n)
{
    struct cpu *c = cpu_of(be);
    struct cpu_input in = vision_input(pixels, n, vision_patch_width(shape));
    multiply_affine(c, &in, w, x, CPU_STORE);
    struct position_job job = {c, x, table, shape, rows, cols, first};
    pool_run(c->pool, (size_t)n, 16, position_rows, &job);
}

/* ---- attention ---- */

struct vision_layout {
    float *q;
    uint8_t *keys, *values;
    size_t key_bytes, value_bytes; /* bytes of one patch of one head */
    size_t patches;                /* capacity in patches, a multiple of CPU_KEY_BLOCK */
};

/* Returns the kernels for whole images, or NULL if this model does not suit them: a patch's key and
 * value must fit into two float32 rows. */
static const struct vision_attention_kernels *vision_attention_kernels_for(
    const struct cpu *c, const struct vision_shape *shape)
{
    const struct vision_attention_kernels *k = c->k->vision_attention;
    const size_t dim = (size_t)shape->head_dim;
    return k && dim <= CPU_VISION_MAX_DIM &&
                   k->key_bytes((int)dim) + k->value_bytes((int)dim) <= 2 * dim * sizeof(float)
               ? k
               : NULL;
}

static struct vision_layout layout_of(const struct cpu *c, dev qkv,
                                      const struct vision_shape *shape)
{
    const struct vision_attention_kernels *k = vision_attention_kernels_for(c, shape);
    const size_t plain = (size_t)shape->head_dim * sizeof(float),
                 patches = (size_t)c->limits.max_patches;
    struct vision_layout l = {.q = qkv,
                              .key_bytes = k ? k->key_bytes(shape->head_dim) : plain,
                              .value_bytes = k ? k->value_bytes(shape->head_dim) : plain,
                              .patches = patches};
    l.keys = (uint8_t *)qkv + patches * (size_t)shape->hidden * sizeof(float);
    l.values = l.keys + patches * (size_t)shape->n_heads * l.key_bytes;
    return l;
}

/* Returns the keys of a head from a patch on. */
static void *keys_at(const struct vision_layout *l, size_t head, size_t patch)
{
    return l->keys + (head * l->patches + patch) * l->key_bytes;
}

static void *values_at(const struct vision_layout *l, size_t head, size_t patch)
{
    return l->values + (head * l->patches + patch) * l->value_bytes;
}

struct qkv_split_job {
    struct cpu *c;
    struct vision_layout to;
    const float *rows, *rope; /* [n, 3·hidden], [n, dim] */
    const struct vision_shape *shape;
    const struct vision_attention_kernels *kernels; /* or NULL */
    int first, n;
};

/* Stores a patch's key and value in its block as KV_LAYOUT_F32. */
static void store_kv_f32(void *keys, void *values, const float *key, const float *value, size_t dim,
                         size_t slot)
{
    for (size_t d = 0; d < dim; d++)
        ((float *)keys)[d * CPU_KEY_BLOCK + slot] = key[d];
    memcpy((float *)values + slot * dim, value, dim * sizeof(float));
}

/* Like store_kv_f32(), but as KV_LAYOUT_TWO_PASS, which takes no more space. */
static void store_kv_two_pass(void *keys, void *values, const float *key, const float *value,
                              size_t dim, size_t slot)
{
    uint16_t *high = keys, *low = high + dim * CPU_KEY_BLOCK,
             *v = (uint16_t *)values + slot / 2 * 2 * dim + slot % 2;
    for (size_t d = 0; d < dim; d++) {
        size_t at = (d / 2 * CPU_KEY_BLOCK + slot) * 2 + d % 2;
        high[at] = f32_to_bf16(key[d]);
        low[at] = f32_to_bf16(key[d] - bf16_to_f32(high[at]));
        v[2 * d] = f32_to_bf16(value[d]);
    }
}

/* Rotates and stores the query and key of a patch. Without image kernels, also stores its value. */
static void split_qkv_head(const struct qkv_split_job *j, size_t i, size_t head)
{
    size_t dim = (size_t)j->shape->head_dim, hidden = (size_t)j->shape->hidden,
           patch = (size_t)j->first + i, block = patch / CPU_KEY_BLOCK * CPU_KEY_BLOCK;
    const float *row = j->rows + i * 3 * hidden + head * dim, *rope = j->rope + i * dim;
    float rotated[EY_MAX_HEAD_DIM], scale = 1.0f / sqrtf((float)dim);
    float *q = j->to.q + (head * j->to.patches + patch) * dim;
    memcpy(rotated, row, dim * sizeof(float));
    cpu_apply_rope(rotated, rope, (int)dim / 2);
    for (size_t d = 0; d < dim; d++)
        q[d] = rotated[d] * scale;
    memcpy(rotated, row + hidden, dim * sizeof(float));
    cpu_apply_rope(rotated, rope, (int)dim / 2);
    if (j->kernels)
        j->kernels->store_key(keys_at(&j->to, head, 0), patch, rotated, (int)dim);
    else
        (j->c->k->two_pass ? store_kv_two_pass : store_kv_f32)(
            keys_at(&j->to, head, block), values_at(&j->to, head, block), rotated, row + 2 * hidden,
            dim, patch % CPU_KEY_BLOCK);
}

/* Splits the rows of groups of CPU_PATCH_GROUP patches; a group's values are stored together. */
static void split_qkv_groups(void *context, size_t begin, size_t end, int thread)
{
    const struct qkv_split_job *j = context;
    const size_t heads = (size_t)j->shape->n_heads, dim = (size_t)j->shape->head_dim,
                 stride = 3 * (size_t)j->shape->hidden, first = (size_t)j->first;
    (void)thread;
    for (size_t group = begin + first / CPU_PATCH_GROUP; group < end + first / CPU_PATCH_GROUP;
         group++) {
        size_t from = group * CPU_PATCH_GROUP < first ? first : group * CPU_PATCH_GROUP,
               to = (group + 1) * CPU_PATCH_GROUP;
        if (to > first + (size_t)j->n) to = first + (size_t)j->n;
        for (size_t head = 0; head < heads; head++) {
            for (size_t patch = from; patch < to; patch++)
                split_qkv_head(j, patch - first, head);
            const float *value = j->rows + (from - first) * stride + 2 * (size_t)j->shape->hidden +
                                 head * dim;
            if (j->kernels)
                j->kernels->store_values(values_at(&j->to, head, 0), from, value, stride,
                                         (int)(to - from), (int)dim);
        }
    }
}

void cpu_vision_qkv(struct backend *be, dev qkv, dev x, const struct vision_block *w,
                    const struct vision_shape *shape, dev rope, int first, int n)
{
    struct cpu *c = cpu_of(be);
    struct cpu_input in = layer_norm_input(c, x, &w->norm1, n, shape->norm_eps);
    multiply_affine(c, &in, &w->qkv, c->rows[1], CPU_STORE);
    struct qkv_split_job job = {c,          layout_of(c, qkv, shape),
                                c->rows[1], rope,
                                shape,      vision_attention_kernels_for(c, shape),
                                first,      n};
    pool_run(c->pool, (size_t)((first + n - 1) / CPU_PATCH_GROUP - first / CPU_PATCH_GROUP + 1), 1,
             split_qkv_groups, &job);
}

struct cpu_vision_attention_job {
    struct cpu *c;
    float *o;
    struct vision_layout in;
    const struct vision_shape *shape;
    int first, n, first_key, n_keys, tiles;
};

static int vision_tile_rows(const struct cpu_vision_attention_job *j, int tile)
{
    int left = j->n - tile * CPU_Q_ROWS;
    return left < CPU_Q_ROWS ? left : CPU_Q_ROWS;
}

static void start_vision_tile(const struct cpu_vision_attention_job *j, struct attention_tile *t,
                              int tile, size_t head, struct cpu_attention_scratch *scratch)
{
    size_t dim = (size_t)j->shape->head_dim, row = (size_t)(j->first + tile * CPU_Q_ROWS);
    cpu_attention_start(t, scratch, vision_tile_rows(j, tile), (int)dim);
    for (int r = 0; r < t->n_rows; r++)
        t->q[r] = j->in.q + (head * j->in.patches + row + (size_t)r) * dim;
}

static void attend_vision_tiles(const struct cpu_vision_attention_job *j, int tile, int n_tiles,
                                size_t head, struct cpu_attention_scratch *scratch)
{
    struct attention_tile t[CPU_SHARED_TILES];
    for (int i = 0; i < n_tiles; i++)
        start_vision_tile(j, &t[i], tile + i, head, &scratch[i]);
    for (int key = 0; key < j->n_keys; key += CPU_KEY_BLOCK)
        for (int i = 0; i < n_tiles; i++) {
            for (int r = 0; r < t[i].n_rows; r++)
                t[i].end_key[r] = j->n_keys - key < CPU_KEY_BLOCK ? j->n_keys - key : CPU_KEY_BLOCK;
            j->c->k->attention(&t[i], keys_at(&j->in, head, (size_t)(j->first_key + key)),
                               values_at(&j->in, head, (size_t)(j->first_key + key)),
                               j->c->k->two_pass ? KV_LAYOUT_TWO_PASS : KV_LAYOUT_F32);
        }
    for (int i = 0; i < n_tiles; i++)
        for (int r = 0; r < t[i].n_rows; r++)
            cpu_attention_finish(
                j->o + (size_t)((tile + i) * CPU_Q_ROWS + r) * (size_t)j->shape->hidden +
                    head * (size_t)j->shape->head_dim,
                &t[i], r);
}

/* Computes one tile over all keys in one call. */
static void attend_image_tile(const struct cpu_vision_attention_job *j,
                              const struct vision_attention_kernels *k, int tile, size_t head,
                              void *scratch)
{
    size_t row = (size_t)tile * CPU_Q_ROWS, dim = (size_t)j->shape->head_dim,
           hidden = (size_t)j->shape->hidden;
    const struct vision_attention_tile t = {
        j->in.q + (head * j->in.patches + (size_t)j->first + row) * dim,
        vision_tile_rows(j, tile),
        (int)dim,
        j->n_keys,
        keys_at(&j->in, head, (size_t)j->first_key),
        values_at(&j->in, head, (size_t)j->first_key),
        j->o + row * hidden + head * dim,
        hidden};
    k->attention(&t, scratch);
}

static size_t groups_of_head(const struct cpu_vision_attention_job *j)
{
    return ((size_t)j->tiles + CPU_SHARED_TILES - 1) / CPU_SHARED_TILES;
}

/* Computes the attention of groups of tiles, head by head. */
static void attend_vision_groups(void *context, size_t begin, size_t end, int thread)
{
    const struct cpu_vision_attention_job *j = context;
    const struct vision_attention_kernels *k = vision_attention_kernels_for(j->c, j->shape);
    const size_t groups = groups_of_head(j);
    for (size_t i = begin; i < end; i++) {
        int tile = (int)(i % groups) * CPU_SHARED_TILES,
            n = j->tiles - tile < CPU_SHARED_TILES ? j->tiles - tile : CPU_SHARED_TILES;
        if (!k) {
            attend_vision_tiles(j, tile, n, i / groups, cpu_scratch(j->c, thread));
            continue;
        }
        for (int u = 0; u < n; u++)
            attend_image_tile(j, k, tile + u, i / groups, cpu_scratch(j->c, thread));
    }
}

void cpu_vision_attention(struct backend *be, dev o, dev qkv, const struct vision_shape *shape,
                          const struct vision_segment *segments, int n_segments, int first, int n)
{
    struct cpu *c = cpu_of(be);
    for (int i = 0; i < n_segments; i++) {
        int from, rows = vision_segment_overlap(&segments[i], first, n, &from);
        struct cpu_vision_attention_job job = {.c = c,
                                               .o = (float *)o +
                                                    (size_t)(from - first) * (size_t)shape->hidden,
                                               .in = layout_of(c, qkv, shape),
                                               .shape = shape,
                                               .first = from,
                                               .n = rows,
                                               .first_key = segments[i].first,
                                               .n_keys = segments[i].rows * segments[i].cols,
                                               .tiles = (rows + CPU_Q_ROWS - 1) / CPU_Q_ROWS};
        pool_run(c->pool, groups_of_head(&job) * (size_t)shape->n_heads, 1, attend_vision_groups,
                 &job);
    }
}

/* ---- MLP and mergers ---- */

void cpu_vision_mlp(struct backend *be, dev h, dev x, const struct vision_block *w,
                    const struct vision_shape *shape, int n)
{
    struct cpu *c = cpu_of(be);
    struct cpu_input in = layer_norm_input(c, x, &w->norm2, n, shape->norm_eps);
    multiply_affine(c, &in, &w->fc1, h, CPU_GELU_TANH);
}

void cpu_vision_project_add(struct backend *be, dev x, dev in, const struct affine *w, int n)
{
    struct cpu_input input = vision_input(in, n, (int)cpu_tensor(w->w)->cols);
    multiply_affine(cpu_of(be), &input, w, x, CPU_ADD);
}

struct norm_job {
    const struct cpu_kernels *k;
    float *y;
    const float *x, *w, *b;
    size_t width;
    float eps;
};

static void cpu_layer_norm_rows(void *context, size_t begin, size_t end, int thread)
{
    const struct norm_job *j = context;
    (void)thread;
    for (size_t i = begin; i < end; i++)
        j->k->rows->layer_norm(j->y + i * j->width, j->x + i * j->width, j->w, j->b, j->width,
                               j->eps);
}

void cpu_merge(struct backend *be, dev out, dev x, const struct merger *w,
               const struct vision_shape *shape, int n)
{
    struct cpu *c = cpu_of(be);
    int group = vision_group(shape), wide = group * shape->hidden,
        rows = w->norm_grouped ? n : n * group;
    struct norm_job job = {c->k,
                           c->rows[1],
                           x,
                           cpu_vector(c, 0, w->norm.w),
                           cpu_vector(c, 1, w->norm.b),
                           (size_t)cpu_tensor(w->norm.w)->cols,
                           shape->norm_eps};
    pool_run(c->pool, (size_t)rows, 8, cpu_layer_norm_rows, &job);
    struct cpu_input in = vision_input(c->rows[1], n, wide);
    multiply_affine(c, &in, &w->fc1, c->rows[0], CPU_GELU_ERF);
    in.x = c->rows[0];
    multiply_affine(c, &in, &w->fc2, out, CPU_STORE);
}
