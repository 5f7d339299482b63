/* SPDX-License-Identifier: Apache-2.0 */
/* Sums the sizes of weights on a GPU by their use. */
#include "plan/weight_sizes.h"

#include "convert/quantize.h"

struct weight_sum {
    const struct backend *be;
    enum placement placement;
    uint64_t bytes, file_bytes;
};

static void sum_weights(struct weight_sum *s, const struct tensor *first, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!first[i].data) continue;
        s->bytes += s->be->ops->memory->weight_bytes(s->be, &first[i], s->placement);
        s->file_bytes += weight_data_bytes(&first[i]);
    }
}

#define ADD_WEIGHTS(sum, s) sum_weights(sum, TENSORS_OF(s))

/* Adds the bytes of a layer's weights in the file, and in host memory if they are quantized. */
static void add_host_weights(uint64_t *file_bytes, uint64_t *quantized, const struct tensor *w,
                             size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!w[i].data) continue;
        if (w[i].recipe)
            *quantized += quantized_bytes(&w[i]);
        else
            *file_bytes += weight_data_bytes(&w[i]);
    }
}

static void add_text_sizes(struct weight_sizes *out, const struct model *m,
                           const struct backend *be)
{
    struct weight_sum s = {be, PLACE_RESIDENT, 0, 0};
    uint64_t file_bytes = 0, quantized = 0;
    for (int i = 0; i < m->text.n_layers; i++) {
        struct text_layer_tensors *layer = &m->layers[i];
        ADD_WEIGHTS(&s, layer->attention);
        ADD_WEIGHTS(&s, layer->mlp);
        add_host_weights(&file_bytes, &quantized, TENSORS_OF(layer->attention));
        add_host_weights(&file_bytes, &quantized, TENSORS_OF(layer->mlp));
        out->cpu_layers[i + 1] = s.bytes;
        out->cpu_layers_file[i + 1] = file_bytes;
        out->cpu_layers_quantized[i + 1] = quantized;
    }
    ADD_WEIGHTS(&s, m->final_norm);
    out->text = s.bytes;
}

/* A tied head is also the embedding. */
static void add_lm_head_sizes(struct weight_sizes *out, const struct model *m,
                              const struct backend *be)
{
    struct weight_sum whole = {be, PLACE_RESIDENT, 0, 0}, eight_bit = {be, PLACE_EIGHT_BIT, 0, 0};
    ADD_WEIGHTS(&whole, m->head);
    out->lm_head_only = whole.bytes;
    if (m->embed.data != m->head.data) {
        ADD_WEIGHTS(&whole, m->embed);
        out->embed_file = weight_data_bytes(&m->embed);
    }
    ADD_WEIGHTS(&eight_bit, m->head);
    out->lm_head = whole.bytes;
    out->lm_head_file = whole.file_bytes;
    out->lm_head_8bit = eight_bit.bytes;
    out->lm_head_may_be_8bit = m->head.dtype == DTYPE_BF16 && m->head.cols % 16 == 0;
}

static void add_merger(struct weight_sum *s, const struct merger_tensors *m)
{
    ADD_WEIGHTS(s, m->norm);
    ADD_WEIGHTS(s, m->fc1);
    ADD_WEIGHTS(s, m->fc2);
}

/* Sums the streamed groups: blocks and mergers, which is all of the vision encoder but its patch
 * and position embeddings. */
static struct weight_sum sum_streamed_groups(const struct model *m, const struct backend *be,
                                             enum placement placement)
{
    struct weight_sum s = {be, placement, 0, 0};
    for (int i = 0; i < m->vision.depth; i++)
        ADD_WEIGHTS(&s, m->vision_tensors.blocks[i]);
    for (int i = 0; i < m->vision.n_deepstack; i++)
        add_merger(&s, &m->vision_tensors.deepstack[i]);
    add_merger(&s, &m->vision_tensors.merger);
    return s;
}

static void add_vision_sizes(struct weight_sizes *out, const struct model *m,
                             const struct backend *be)
{
    struct weight_sum first = {be, PLACE_RESIDENT, 0, 0}, resident, streamed;
    if (!m->vision.depth) return;
    ADD_WEIGHTS(&first, m->vision_tensors.patch);
    ADD_WEIGHTS(&first, m->vision_tensors.position);
    resident = sum_streamed_groups(m, be, PLACE_RESIDENT);
    streamed = sum_streamed_groups(m, be, PLACE_STREAMED);
    out->vision = first.bytes + resident.bytes;
    out->vision_file = first.file_bytes + resident.file_bytes;
    out->vision_streamed_file = streamed.file_bytes;
    out->vision_streamed = first.bytes + streamed.bytes +
                           2 * (uint64_t)model_streamed_group_bytes(m, be) + PLAN_UPLOAD_RING_BYTES;
}

struct weight_sizes weight_sizes(const struct model *m, const struct backend *be)
{
    struct weight_sizes out = {0};
    add_text_sizes(&out, m, be);
    add_lm_head_sizes(&out, m, be);
    add_vision_sizes(&out, m, be);
    return out;
}

/* ---- the model that is suggested where a larger one does not fit ---- */

const char smaller_model_name[] = "Qwen/Qwen3-VL-2B-Instruct-FP8";

enum { SMALLER_LAYERS = 28, SMALLER_BLOCKS = 24 };

static const float placeholder_scale;

static struct tensor placeholder_matrix(int rows, int cols, enum dtype dtype)
{
    return (struct tensor){.data = "",
                           .dtype = dtype,
                           .rows = rows,
                           .cols = cols,
                           .scale = dtype == DTYPE_F8_E4M3 ? &placeholder_scale : NULL};
}

static struct tensor placeholder_vector(int n)
{
    return placeholder_matrix(1, n, DTYPE_BF16);
}

static struct affine_tensors placeholder_affine(int rows, int cols)
{
    return (struct affine_tensors){placeholder_matrix(rows, cols, DTYPE_BF16),
                                   placeholder_vector(rows)};
}

static struct text_layer_tensors smaller_layer(const struct text_shape *t)
{
    const int q = text_q_width(t), kv = text_kv_width(t), h = t->hidden;
    const enum dtype fp8 = DTYPE_F8_E4M3;
    return (struct text_layer_tensors){.kind = LAYER_FULL_ATTENTION,
                                       .attention = {.input_norm = placeholder_vector(h),
                                                     .q = placeholder_matrix(q, h, fp8),
                                                     .k = placeholder_matrix(kv, h, fp8),
                                                     .v = placeholder_matrix(kv, h, fp8),
                                                     .q_norm = placeholder_vector(t->head_dim),
                                                     .k_norm = placeholder_vector(t->head_dim),
                                                     .o = placeholder_matrix(h, q, fp8)},
                                       .mlp = {.post_norm = placeholder_vector(h),
                                               .gate = placeholder_matrix(t->mlp, h, fp8),
                                               .up = placeholder_matrix(t->mlp, h, fp8),
                                               .down = placeholder_matrix(h, t->mlp, fp8)}};
}

static struct vision_block_tensors smaller_block(const struct vision_shape *v)
{
    const int h = v->hidden;
    return (struct vision_block_tensors){.norm1 = {placeholder_vector(h), placeholder_vector(h)},
                                         .norm2 = {placeholder_vector(h), placeholder_vector(h)},
                                         .qkv = placeholder_affine(3 * h, h),
                                         .proj = placeholder_affine(h, h),
                                         .fc1 = placeholder_affine(v->mlp, h),
                                         .fc2 = placeholder_affine(h, v->mlp)};
}

static struct merger_tensors smaller_merger(const struct vision_shape *v, bool grouped)
{
    const int wide = vision_group(v) * v->hidden, normed = grouped ? wide : v->hidden;
    return (struct merger_tensors){{placeholder_vector(normed), placeholder_vector(normed)},
                                   placeholder_affine(wide, wide),
                                   placeholder_affine(v->out_hidden, wide),
                                   grouped};
}

void with_smaller_model(void (*use)(void *user, const struct model *model), void *user)
{
    struct text_layer_tensors layers[SMALLER_LAYERS];
    struct vision_block_tensors blocks[SMALLER_BLOCKS];
    struct model m = {
        .text = {.hidden = 2048,
                 .n_layers = SMALLER_LAYERS,
                 .n_heads = 16,
                 .n_kv_heads = 8,
                 .head_dim = 128,
                 .mlp = 6144,
                 .vocab_size = 151936,
                 .max_position = 262144},
        .vision = {.hidden = 1024,
                   .depth = SMALLER_BLOCKS,
                   .n_heads = 16,
                   .head_dim = 64,
                   .mlp = 4096,
                   .out_hidden = 2048,
                   .patch = 16,
                   .temporal = 2,
                   .merge = 2,
                   .channels = 3,
                   .position_side = 48,
                   .n_deepstack = 3,
                   .deepstack = {5, 11, 17}},
        .patch_spec = {.patch = 16, .merge = 2, .max_pixels = 16777216},
        .layers = layers,
        .vision_tensors = {.blocks = blocks},
    };
    const struct vision_shape *v = &m.vision;
    for (int i = 0; i < SMALLER_LAYERS; i++)
        layers[i] = smaller_layer(&m.text);
    for (int i = 0; i < SMALLER_BLOCKS; i++)
        blocks[i] = smaller_block(v);
    m.final_norm = placeholder_vector(m.text.hidden);
    m.embed = m.head = placeholder_matrix(m.text.vocab_size, m.text.hidden, DTYPE_BF16);
    m.vision_tensors.patch = placeholder_affine(v->hidden, vision_patch_width(v));
    m.vision_tensors.position = placeholder_matrix(v->position_side * v->position_side, v->hidden,
                                                   DTYPE_BF16);
    m.vision_tensors.merger = smaller_merger(v, false);
    for (int i = 0; i < v->n_deepstack; i++)
        m.vision_tensors.deepstack[i] = smaller_merger(v, true);
    use(user, &m);
}
