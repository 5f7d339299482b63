/* SPDX-License-Identifier: Apache-2.0 */
/* The vision encoder (spec 4.2-4.6). It computes tiles of rows; only attention reads the keys and
 * values of whole images. A tile of one block is the unit of scheduling. */
#include "models/vision_model.h"

#include <string.h>

struct vision_tile {
    const struct model *m;
    struct backend *be;
    const struct workspace *ws;
    const struct vision_backends *backends;
    int first, n; /* patches */
};

static int quotient_up(int n, int by)
{
    return (n + by - 1) / by;
}

/* Returns the number of tiles of a run; each holds whole visual tokens and at most the workspace's
 * rows. */
static int run_tiles(const struct encoder_run *p, const struct model *m, const struct workspace *ws)
{
    const int group = vision_group(&m->vision);
    return quotient_up(p->n_patches, ws->max_rows / group * group);
}

static int multiple_up(int n, int of)
{
    return quotient_up(n, of) * of;
}

/* Returns the rows of the next tile. Tiles are about equal, because a GPU needs nearly as long for
 * a small one. */
static int next_tile_rows(const struct encoder_run *p, const struct model *m,
                          const struct workspace *ws)
{
    const int group = vision_group(&m->vision), most = ws->max_rows / group * group,
              even = multiple_up(quotient_up(p->n_patches, run_tiles(p, m, ws)), KV_BLOCK),
              whole = multiple_up(even, group), tile = whole < most ? whole : most,
              left = p->n_patches - p->first;
    return left < tile ? left : tile;
}

/* Returns the address of row `first` of the run in a buffer. */
static dev vision_row(const struct vision_tile *t, dev buffer, enum element kind, int first,
                      int width)
{
    return t->be->ops->memory->at(t->be, buffer, kind, (size_t)first * (size_t)width);
}

static dev vision_tile_row(const struct vision_tile *t, dev buffer, enum element kind, int width)
{
    return vision_row(t, buffer, kind, t->first, width);
}

/* Embeds n patches of an image, from its patch `first`, into rows of the run. */
static void patch_embed_image(const struct vision_tile *t, const struct encoder_run *p, int i,
                              int first, int n)
{
    const struct vision_shape *s = &t->m->vision;
    const struct vision_weights *w = &t->m->placed.vision;
    const struct vision_segment *segment = &p->segment[i];
    const struct image *image = p->image[i].image;
    dev x = vision_row(t, t->ws->vision_x, ELEMENT_RESIDUAL, segment->first + first, s->hidden);
    if (t->be->ops->compute->patch_embed_rgb) {
        const struct patch_spec *spec = &t->m->patch_spec;
        const struct rgb_image rgb = {image->rgb,
                                      segment->rows,
                                      segment->cols,
                                      {spec->mean[0], spec->mean[1], spec->mean[2]},
                                      {spec->std[0], spec->std[1], spec->std[2]}};
        t->be->ops->compute->patch_embed_rgb(t->be, x, &rgb, &w->patch, w->position, s, first, n);
    } else {
        image_patchify_rows(p->pixels, image, &t->m->patch_spec, first, n);
        t->be->ops->compute->patch_embed(t->be, x, p->pixels, &w->patch, w->position, s,
                                         segment->rows, segment->cols, first, n);
    }
}

/* Embeds the tile's pixels and sets (row, col, 0) of each patch; rows between images are zeros. */
static void patch_embed_tile(const struct vision_tile *t, const struct encoder_run *p)
{
    const struct vision_shape *s = &t->m->vision;
    memset(p->positions, 0, (size_t)t->n * 3 * sizeof(*p->positions));
    for (int i = 0; i < p->n_images; i++) {
        const struct vision_segment *segment = &p->segment[i];
        int from, n = vision_segment_overlap(segment, t->first, t->n, &from);
        for (int row = from; row < from + n; row++) {
            int32_t *position = p->positions + 3 * (row - t->first);
            image_patch_position(row - segment->first, segment->cols, s->merge, &position[0],
                                 &position[1]);
        }
        if (n) patch_embed_image(t, p, i, from - segment->first, n);
    }
    t->be->ops->compute->rope_table(
        t->be, vision_tile_row(t, t->ws->vision_rope, ELEMENT_ROPE, s->head_dim),
        &t->m->vision_rope, p->positions, t->n);
}

static void qkv_tile(const struct vision_tile *t, const struct vision_block *w)
{
    const struct vision_shape *s = &t->m->vision;
    t->be->ops->compute->vision_qkv(
        t->be, t->ws->vision_qkv, vision_tile_row(t, t->ws->vision_x, ELEMENT_RESIDUAL, s->hidden),
        w, s, vision_tile_row(t, t->ws->vision_rope, ELEMENT_ROPE, s->head_dim), t->first, t->n);
}

/* x += proj(attention(LN x)); x += fc2(gelu(fc1(LN x))). */
static void attention_mlp_tile(const struct vision_tile *t, const struct encoder_run *p,
                               const struct vision_block *w)
{
    const struct backend_ops *op = t->be->ops;
    const struct vision_shape *s = &t->m->vision;
    dev x = vision_tile_row(t, t->ws->vision_x, ELEMENT_RESIDUAL, s->hidden);
    op->compute->vision_attention(t->be, t->ws->vision_o, t->ws->vision_qkv, s, p->segment,
                                  p->n_images, t->first, t->n);
    op->compute->vision_project_add(t->be, x, t->ws->vision_o, &w->proj, t->n);
    op->compute->vision_mlp(t->be, t->ws->vision_h, x, w, s, t->n);
    op->compute->vision_project_add(t->be, x, t->ws->vision_h, &w->fc2, t->n);
}

/* Merges n tokens of the run into adjacent rows of the text model's features. */
static void merge_tokens(const struct vision_tile *t, const struct merger *w, int level, int token,
                         int n, size_t row)
{
    const struct vision_shape *s = &t->m->vision;
    const struct feature_level *to = &t->backends->text_ws->features[level];
    const size_t width = (size_t)s->out_hidden;
    dev x = vision_row(t, t->ws->vision_x, ELEMENT_RESIDUAL, token * vision_group(s), s->hidden);
    dev out = to->be->ops->memory->at(to->be, to->rows, ELEMENT_FEATURE, row * width);
    const bool crosses = t->be != to->be;
    t->be->ops->compute->merge(t->be, crosses ? t->ws->vision_features : out, x, w, s, n);
    if (crosses && !to->be->ops->device)
        t->be->ops->memory->read(t->be, out, t->ws->vision_features, ELEMENT_FEATURE,
                                 (size_t)n * width);
    else if (crosses)
        to->be->ops->memory->write(to->be, out, t->ws->vision_features, ELEMENT_FEATURE,
                                   (size_t)n * width);
}

/* Returns how many tokens from `token` on go to adjacent feature rows: those of its feature block
 * and of following blocks that are adjacent in memory. If features cross devices, counts only those
 * of one block. */
static int neighbouring_tokens(const int32_t *feature_block, int token, int end, bool crosses)
{
    int next = (token / FEATURE_BLOCK + 1) * FEATURE_BLOCK;
    while (!crosses && next < end &&
           feature_block[next / FEATURE_BLOCK] == feature_block[next / FEATURE_BLOCK - 1] + 1)
        next += FEATURE_BLOCK;
    return (next < end ? next : end) - token;
}

/* Merges the tile's tokens of an image into the image's feature blocks. */
static void merge_image(const struct vision_tile *t, const struct encoder_run *p, int image,
                        const struct merger *w, int level)
{
    const int group = vision_group(&t->m->vision), first_token = p->segment[image].first / group;
    const int32_t *block = p->image[image].feature_block;
    const bool crosses = t->be != t->backends->text_ws->features[level].be;
    int from, patches = vision_segment_overlap(&p->segment[image], t->first, t->n, &from);
    int token = from / group - first_token, end = token + patches / group;
    for (int n; token < end; token += n) {
        n = neighbouring_tokens(block, token, end, crosses);
        merge_tokens(t, w, level, first_token + token, n,
                     (size_t)block[token / FEATURE_BLOCK] * FEATURE_BLOCK +
                         (size_t)(token % FEATURE_BLOCK));
    }
}

static void merge_tile(const struct vision_tile *t, const struct encoder_run *p,
                       const struct merger *w, int level)
{
    for (int i = 0; i < p->n_images; i++)
        merge_image(t, p, i, w, level);
}

/* Returns the DeepStack level after this block, or -1. */
static int deepstack_level_of(const struct model *m, int block)
{
    for (int k = 0; k < m->vision.n_deepstack; k++)
        if (m->vision.deepstack[k] == block) return k;
    return -1;
}

static void encoder_next_stage(struct encoder_run *p, const struct model *m)
{
    p->first = 0;
    if (p->block >= 0 && p->stage == RUN_QKV) {
        p->stage = RUN_ROWS;
    } else if (p->block >= 0 && p->stage == RUN_ROWS && deepstack_level_of(m, p->block) >= 0) {
        p->stage = RUN_DEEPSTACK;
    } else {
        p->block++;
        p->stage = RUN_QKV;
    }
}

struct encoder_run encoder_run_begin(float *pixels, int32_t *positions)
{
    return (struct encoder_run){.pixels = pixels, .positions = positions, .block = -1};
}

/* Returns the rows that the next image of the run would take. */
static struct vision_segment next_segment(const struct encoder_run *p, const struct model *m,
                                          const struct image *image)
{
    return (struct vision_segment){multiple_up(p->n_patches, KV_BLOCK),
                                   image->height / m->patch_spec.patch,
                                   image->width / m->patch_spec.patch};
}

int encoder_run_patches(const struct encoder_run *p, const struct model *m,
                        const struct image *image)
{
    const struct vision_segment segment = next_segment(p, m, image);
    return vision_segment_end(&segment);
}

bool encoder_run_add(struct encoder_run *p, const struct model *m, const struct workspace *ws,
                     const struct encoder_image *image)
{
    const int i = p->n_images;
    const struct vision_segment segment = next_segment(p, m, image->image);
    if (i == ENCODER_IMAGES || vision_segment_end(&segment) > ws->max_patches) return false;
    if (segment.first % vision_group(&m->vision)) return false; /* would begin within a token */
    p->image[i] = *image;
    p->segment[i] = segment;
    p->n_images++;
    p->n_patches = vision_segment_end(&segment);
    p->total = run_tiles(p, m, ws) * (2 * m->vision.depth + m->vision.n_deepstack + 2);
    return true;
}

bool encoder_run_step(struct encoder_run *p, const struct model *m,
                      const struct vision_backends *place)
{
    struct vision_tile t = {m,     place->be, place->ws,
                            place, p->first,  next_tile_rows(p, m, place->ws)};
    bool last = p->block == m->vision.depth;
    int level = p->block >= 0 ? deepstack_level_of(m, p->block) : -1;
    if (p->block < 0)
        patch_embed_tile(&t, p);
    else if (last)
        merge_tile(&t, p, &m->placed.vision.merger, 0);
    else if (p->stage == RUN_QKV)
        qkv_tile(&t, &m->placed.vision.blocks[p->block]);
    else if (p->stage == RUN_ROWS)
        attention_mlp_tile(&t, p, &m->placed.vision.blocks[p->block]);
    else
        merge_tile(&t, p, &m->placed.vision.deepstack[level], 1 + level);
    p->first += t.n;
    p->done++;
    if (p->first < p->n_patches) return true;
    if (last) return false;
    encoder_next_stage(p, m);
    return true;
}
