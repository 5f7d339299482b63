/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of weights on a card, summed by what they are for. */
#include "plan/weights.h"

#include "quantize/quantize.h"

struct sum {
    const struct backend *be;
    enum placement placement;
    uint64_t bytes, stored;
};

static uint64_t stored_bytes(const struct weight *w)
{
    return (uint64_t)w->rows * (uint64_t)w->cols * dtype_size(w->dtype);
}

static void add_all(struct sum *s, const struct weight *first, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!first[i].data) continue;
        s->bytes += s->be->ops->weight_bytes(s->be, &first[i], s->placement);
        s->stored += stored_bytes(&first[i]);
    }
}

/* A structure that holds nothing but weights, as an array of them. */
#define ADD(sum, s) add_all(sum, (const struct weight *)&(s), sizeof(s) / sizeof(struct weight))

/* What a layer takes of the host: of the file, and of memory where it is quantised. */
static void add_on_host(uint64_t *stored, uint64_t *made, const struct decoder_layer *layer)
{
    const struct weight *w = (const struct weight *)layer;
    for (size_t i = 0; i < LAYER_WEIGHTS; i++) {
        if (!w[i].data) continue;
        if (w[i].recipe)
            *made += quantized_bytes(&w[i]);
        else
            *stored += (uint64_t)w[i].rows * weight_row_bytes(&w[i]);
    }
}

static void add_decoder(struct weight_sizes *out, const struct model *m, const struct backend *be)
{
    struct sum s = {be, PLACE_RESIDENT, 0, 0};
    uint64_t stored = 0, made = 0;
    for (int i = 0; i < m->text.n_layers; i++) {
        ADD(&s, m->layers[i]);
        add_on_host(&stored, &made, &m->layers[i]);
        out->first[i + 1] = s.bytes;
        out->first_stored[i + 1] = stored;
        out->first_made[i + 1] = made;
    }
    ADD(&s, m->final_norm);
    out->decoder = s.bytes;
}

/* A tied head is the embedding too. */
static void add_head(struct weight_sizes *out, const struct model *m, const struct backend *be)
{
    struct sum whole = {be, PLACE_RESIDENT, 0, 0}, eight_bit = {be, PLACE_EIGHT_BIT, 0, 0};
    ADD(&whole, m->head);
    out->head_alone = whole.bytes;
    if (m->embed.data != m->head.data) {
        ADD(&whole, m->embed);
        out->embed_stored = (uint64_t)m->embed.rows * weight_row_bytes(&m->embed);
    }
    ADD(&eight_bit, m->head);
    out->head = whole.bytes;
    out->head_stored = whole.stored;
    out->head_8bit = eight_bit.bytes;
    out->may_be_8bit = m->head.dtype == DTYPE_BF16 && m->head.cols % 16 == 0;
}

static void add_merger(struct sum *s, const struct merger *m)
{
    ADD(s, m->norm);
    ADD(s, m->fc1);
    ADD(s, m->fc2);
}

/* Blocks and mergers: all of the tower but what makes rows of patches, which does not stream. */
static struct sum groups_of(const struct model *m, const struct backend *be,
                            enum placement placement)
{
    struct sum s = {be, placement, 0, 0};
    for (int i = 0; i < m->vision.depth; i++)
        ADD(&s, m->tower.blocks[i]);
    for (int i = 0; i < m->vision.n_deepstack; i++)
        add_merger(&s, &m->tower.deepstack[i]);
    add_merger(&s, &m->tower.merger);
    return s;
}

static void add_vision(struct weight_sizes *out, const struct model *m, const struct backend *be)
{
    struct sum first = {be, PLACE_RESIDENT, 0, 0}, resident, streamed;
    if (!m->vision.depth) return;
    ADD(&first, m->tower.patch);
    ADD(&first, m->tower.position);
    resident = groups_of(m, be, PLACE_RESIDENT);
    streamed = groups_of(m, be, PLACE_STREAMED);
    out->vision = first.bytes + resident.bytes;
    out->vision_stored = first.stored + resident.stored;
    out->streamed_stored = streamed.stored;
    out->vision_streamed = first.bytes + streamed.bytes + 2 * (uint64_t)model_group_bytes(m, be) +
                           PLAN_RING_BYTES;
}

struct weight_sizes weight_sizes(const struct model *m, const struct backend *be)
{
    struct weight_sizes out = {0};
    add_decoder(&out, m, be);
    add_head(&out, m, be);
    add_vision(&out, m, be);
    return out;
}

/* ---- the model that is suggested where a larger one does not fit ---- */

const char smaller_model_name[] = "Qwen/Qwen3-VL-2B-Instruct-FP8";

enum { SMALLER_LAYERS = 28, SMALLER_BLOCKS = 24 };

static const float known_scale;

static struct weight matrix(int rows, int cols, enum dtype dtype)
{
    return (struct weight){.data = "",
                           .dtype = dtype,
                           .rows = rows,
                           .cols = cols,
                           .scale = dtype == DTYPE_F8_E4M3 ? &known_scale : NULL};
}

static struct weight vector(int n)
{
    return matrix(1, n, DTYPE_BF16);
}

static struct affine affine(int rows, int cols)
{
    return (struct affine){matrix(rows, cols, DTYPE_BF16), vector(rows)};
}

static struct decoder_layer smaller_layer(const struct text_shape *t)
{
    const int q = text_q_width(t), kv = text_kv_width(t), h = t->hidden;
    const enum dtype fp8 = DTYPE_F8_E4M3;
    return (struct decoder_layer){.input_norm = vector(h),
                                  .q = matrix(q, h, fp8),
                                  .k = matrix(kv, h, fp8),
                                  .v = matrix(kv, h, fp8),
                                  .q_norm = vector(t->head_dim),
                                  .k_norm = vector(t->head_dim),
                                  .o = matrix(h, q, fp8),
                                  .post_norm = vector(h),
                                  .gate = matrix(t->mlp, h, fp8),
                                  .up = matrix(t->mlp, h, fp8),
                                  .down = matrix(h, t->mlp, fp8)};
}

static struct vision_block smaller_block(const struct vision_shape *v)
{
    const int h = v->hidden;
    return (struct vision_block){.norm1 = {vector(h), vector(h)},
                                 .norm2 = {vector(h), vector(h)},
                                 .qkv = affine(3 * h, h),
                                 .proj = affine(h, h),
                                 .fc1 = affine(v->mlp, h),
                                 .fc2 = affine(h, v->mlp)};
}

static struct merger smaller_merger(const struct vision_shape *v, bool grouped)
{
    const int wide = vision_group(v) * v->hidden, normed = grouped ? wide : v->hidden;
    return (struct merger){
        {vector(normed), vector(normed)}, affine(wide, wide), affine(v->out_hidden, wide), grouped};
}

void with_smaller_model(void (*use)(void *user, const struct model *model), void *user)
{
    struct decoder_layer layers[SMALLER_LAYERS];
    struct vision_block blocks[SMALLER_BLOCKS];
    struct model m = {
        .text = {.hidden = 2048,
                 .n_layers = SMALLER_LAYERS,
                 .n_heads = 16,
                 .n_kv_heads = 8,
                 .head_dim = 128,
                 .mlp = 6144,
                 .vocabulary = 151936,
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
        .tower = {.blocks = blocks},
    };
    const struct vision_shape *v = &m.vision;
    for (int i = 0; i < SMALLER_LAYERS; i++)
        layers[i] = smaller_layer(&m.text);
    for (int i = 0; i < SMALLER_BLOCKS; i++)
        blocks[i] = smaller_block(v);
    m.final_norm = vector(m.text.hidden);
    m.embed = m.head = matrix(m.text.vocabulary, m.text.hidden, DTYPE_BF16);
    m.tower.patch = affine(v->hidden, vision_patch_width(v));
    m.tower.position = matrix(v->position_side * v->position_side, v->hidden, DTYPE_BF16);
    m.tower.merger = smaller_merger(v, false);
    for (int i = 0; i < v->n_deepstack; i++)
        m.tower.deepstack[i] = smaller_merger(v, true);
    use(user, &m);
}
