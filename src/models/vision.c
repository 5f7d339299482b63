/* SPDX-License-Identifier: Apache-2.0 */
/* The vision tower (spec 4.2-4.6). Everything but the keys and values of attention goes through in
 * tiles of rows; a tile of one block is the unit in which a pass is given the device. */
#include "models/vision.h"

struct tile {
    const struct model *m;
    struct backend *be;
    const struct workspace *ws;
    const struct vision_place *place;
    int first, n; /* patches */
};

/* Rows of the next tile: whole visual tokens. */
static int tile_rows(const struct vision_pass *p, const struct model *m, const struct workspace *ws)
{
    int group = vision_group(&m->vision), tile = ws->max_rows / group * group,
        left = p->rows * p->cols - p->first;
    return left < tile ? left : tile;
}

static dev row(const struct tile *t, dev buffer, enum element kind, int width)
{
    return t->be->ops->at(t->be, buffer, kind, (size_t)t->first * (size_t)width);
}

/* The tile's pixels, and (row, col, 0) of each patch. */
static void embed_tile(const struct tile *t, const struct vision_pass *p)
{
    const struct vision_shape *s = &t->m->vision;
    const struct vision_weights *w = &t->m->tower;
    for (int i = 0; i < t->n; i++) {
        int32_t *position = p->positions + 3 * i;
        image_patch_place(t->first + i, p->cols, s->merge, &position[0], &position[1]);
        position[2] = 0;
    }
    dev x = row(t, t->ws->vision_x, ELEMENT_RESIDUAL, s->hidden);
    if (t->be->ops->patch_embed_rgb) {
        const struct patch_spec *spec = &t->m->patch_spec;
        const struct rgb_picture picture = {p->image->rgb,
                                            p->rows,
                                            p->cols,
                                            {spec->mean[0], spec->mean[1], spec->mean[2]},
                                            {spec->std[0], spec->std[1], spec->std[2]}};
        t->be->ops->patch_embed_rgb(t->be, x, &picture, &w->patch, &w->position, s, t->first, t->n);
    } else {
        image_patchify_rows(p->pixels, p->image, &t->m->patch_spec, t->first, t->n);
        t->be->ops->patch_embed(t->be, x, p->pixels, &w->patch, &w->position, s, p->rows, p->cols,
                                t->first, t->n);
    }
    t->be->ops->rope_table(t->be, row(t, t->ws->vision_rope, ELEMENT_ROPE, s->head_dim),
                           &t->m->vision_rope, p->positions, t->n);
}

static void keys_tile(const struct tile *t, const struct vision_block *w)
{
    const struct vision_shape *s = &t->m->vision;
    t->be->ops->vision_qkv(t->be, t->ws->vision_qkv,
                           row(t, t->ws->vision_x, ELEMENT_RESIDUAL, s->hidden), w, s,
                           row(t, t->ws->vision_rope, ELEMENT_ROPE, s->head_dim), t->first, t->n);
}

/* x += proj(attention(LN x)); x += fc2(gelu(fc1(LN x))). */
static void rows_tile(const struct tile *t, const struct vision_block *w, int n_keys)
{
    const struct backend_ops *op = t->be->ops;
    const struct vision_shape *s = &t->m->vision;
    dev x = row(t, t->ws->vision_x, ELEMENT_RESIDUAL, s->hidden);
    op->vision_attend(t->be, t->ws->vision_o, t->ws->vision_qkv, s, t->first, t->n, n_keys);
    op->vision_project_add(t->be, x, t->ws->vision_o, &w->proj, t->n);
    op->vision_mlp(t->be, t->ws->vision_h, x, w, s, t->n);
    op->vision_project_add(t->be, x, t->ws->vision_h, &w->fc2, t->n);
}

/* n tokens of one feature block, to rows of the decoder's features. */
static void merge_tokens(const struct tile *t, const struct merger *w, int level, int token, int n,
                         size_t row)
{
    const struct vision_shape *s = &t->m->vision;
    const struct vision_place *to = t->place;
    const size_t width = (size_t)s->out_hidden;
    dev x = t->be->ops->at(t->be, t->ws->vision_x, ELEMENT_RESIDUAL,
                           (size_t)token * (size_t)vision_group(s) * (size_t)s->hidden);
    dev out = to->decoder->ops->at(to->decoder, to->decoder_ws->features[level], ELEMENT_FEATURE,
                                   row * width);
    bool beside = t->be != to->decoder;
    t->be->ops->merge(t->be, beside ? t->ws->vision_features : out, x, w, s, n);
    if (beside && to->to_host)
        t->be->ops->read(t->be, out, t->ws->vision_features, ELEMENT_FEATURE, (size_t)n * width);
    else if (beside)
        to->decoder->ops->write(to->decoder, out, t->ws->vision_features, ELEMENT_FEATURE,
                                (size_t)n * width);
}

/* The tile's tokens go where their feature blocks lie. */
static void merge_tile(const struct tile *t, const struct vision_pass *p, const struct merger *w,
                       int level)
{
    int group = vision_group(&t->m->vision), token = t->first / group,
        end = (t->first + t->n) / group;
    for (int n; token < end; token += n) {
        int place = token % FEATURE_BLOCK;
        n = end - token < FEATURE_BLOCK - place ? end - token : FEATURE_BLOCK - place;
        merge_tokens(t, w, level, token, n,
                     (size_t)p->feature_block[token / FEATURE_BLOCK] * FEATURE_BLOCK +
                         (size_t)place);
    }
}

/* Which DeepStack level is taken behind this block; -1: none. */
static int tap_of(const struct model *m, int block)
{
    for (int k = 0; k < m->vision.n_deepstack; k++)
        if (m->vision.deepstack[k] == block) return k;
    return -1;
}

static void next_stage(struct vision_pass *p, const struct model *m)
{
    p->first = 0;
    if (p->block >= 0 && p->stage == PASS_KEYS) {
        p->stage = PASS_ROWS;
    } else if (p->block >= 0 && p->stage == PASS_ROWS && tap_of(m, p->block) >= 0) {
        p->stage = PASS_TAP;
    } else {
        p->block++;
        p->stage = PASS_KEYS;
    }
}

struct vision_pass vision_pass_start(const struct model *m, const struct workspace *ws,
                                     const struct image *image, float *pixels, int32_t *positions,
                                     const int32_t *feature_block)
{
    struct vision_pass p = {.image = image,
                            .rows = image->height / m->patch_spec.patch,
                            .cols = image->width / m->patch_spec.patch,
                            .pixels = pixels,
                            .positions = positions,
                            .feature_block = feature_block,
                            .block = -1};
    int group = vision_group(&m->vision), tile = ws->max_rows / group * group,
        tiles = (p.rows * p.cols + tile - 1) / tile;
    p.total = tiles * (2 * m->vision.depth + m->vision.n_deepstack + 2);
    return p;
}

bool vision_pass_step(struct vision_pass *p, const struct model *m,
                      const struct vision_place *place)
{
    struct tile t = {m, place->be, place->ws, place, p->first, tile_rows(p, m, place->ws)};
    bool last = p->block == m->vision.depth;
    int tap = p->block >= 0 ? tap_of(m, p->block) : -1;
    if (p->block < 0)
        embed_tile(&t, p);
    else if (last)
        merge_tile(&t, p, &m->tower.merger, 0);
    else if (p->stage == PASS_KEYS)
        keys_tile(&t, &m->tower.blocks[p->block]);
    else if (p->stage == PASS_ROWS)
        rows_tile(&t, &m->tower.blocks[p->block], p->rows * p->cols);
    else
        merge_tile(&t, p, &m->tower.deepstack[tap], 1 + tap);
    p->first += t.n;
    p->done++;
    if (p->first < p->rows * p->cols) return true;
    if (last) return false;
    next_stage(p, m);
    return true;
}
