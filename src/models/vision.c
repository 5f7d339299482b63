/* The vision tower (spec 4.2-4.6). Everything but the keys and values of attention goes through in tiles of rows. */
#include "models/vision.h"

struct tower_pass {
    const struct model *m;
    struct backend *be;
    struct workspace *ws;
    int n; /* patches */
};

/* Rows of the next tile: whole visual tokens. */
static int tile_rows(const struct tower_pass *p, int first)
{
    int group = vision_group(&p->m->vision), tile = p->ws->max_rows / group * group;
    return p->n - first < tile ? p->n - first : tile;
}

static dev row(const struct tower_pass *p, dev buffer, int first, int width)
{
    return p->be->ops->at(p->be, buffer, (size_t)first * (size_t)width);
}

/* (row, col, 0) of each patch in merge-block order. */
static void patch_positions(int32_t *out, int rows, int cols, int merge)
{
    for (int r = 0; r < rows; r += merge)
        for (int c = 0; c < cols; c += merge)
            for (int u = 0; u < merge * merge; u++, out += 3)
                out[0] = r + u / merge, out[1] = c + u % merge, out[2] = 0;
}

static void embed_patches(const struct tower_pass *p, const float *pixels, int rows, int cols, const int32_t *positions)
{
    const struct vision_shape *s = &p->m->vision;
    const struct vision_weights *w = &p->m->tower;
    for (int first = 0, n; first < p->n; first += n) {
        n = tile_rows(p, first);
        p->be->ops->patch_embed(p->be, row(p, p->ws->vision_x, first, s->hidden),
                                pixels + (size_t)first * (size_t)vision_patch_width(s), &w->patch, &w->position, s,
                                rows, cols, first, n);
        p->be->ops->rope_table(p->be, row(p, p->ws->vision_rope, first, s->head_dim), &p->m->vision_rope,
                               positions + 3 * (size_t)first, n);
    }
}

/* x += proj(attention(LN x)); x += fc2(gelu(fc1(LN x))). All keys and values first, then tile by tile. */
static void run_block(const struct tower_pass *p, const struct vision_block *w)
{
    const struct backend_ops *op = p->be->ops;
    const struct vision_shape *s = &p->m->vision;
    struct workspace *ws = p->ws;
    for (int first = 0, n; first < p->n; first += n) {
        n = tile_rows(p, first);
        op->vision_qkv(p->be, ws->vision_qkv, row(p, ws->vision_x, first, s->hidden), w, s,
                       row(p, ws->vision_rope, first, s->head_dim), first, n);
    }
    for (int first = 0, n; first < p->n; first += n) {
        n = tile_rows(p, first);
        dev x = row(p, ws->vision_x, first, s->hidden);
        op->vision_attend(p->be, ws->vision_o, ws->vision_qkv, s, first, n, p->n);
        op->project_add(p->be, x, ws->vision_o, &w->proj.w, &w->proj.b, n);
        op->vision_mlp(p->be, ws->vision_h, x, w, s, n);
        op->project_add(p->be, x, ws->vision_h, &w->fc2.w, &w->fc2.b, n);
    }
}

static void merge_tokens(const struct tower_pass *p, const struct merger *w, dev features, int first_token)
{
    const struct vision_shape *s = &p->m->vision;
    int group = vision_group(s);
    for (int first = 0, n; first < p->n; first += n) {
        n = tile_rows(p, first);
        p->be->ops->merge(p->be, row(p, features, first_token + first / group, s->out_hidden),
                          row(p, p->ws->vision_x, first, s->hidden), w, s, n / group);
    }
}

static void tap_block(const struct tower_pass *p, int block, int first_token)
{
    for (int k = 0; k < p->m->vision.n_deepstack; k++)
        if (p->m->vision.deepstack[k] == block)
            merge_tokens(p, &p->m->tower.deepstack[k], p->ws->features[1 + k], first_token);
}

bool vision_encode(const struct model *m, struct backend *be, struct workspace *ws, const float *pixels, int rows,
                   int cols, int first_token, int32_t *positions, const struct watch *watch)
{
    struct tower_pass p = {m, be, ws, rows * cols};
    patch_positions(positions, rows, cols, m->vision.merge);
    embed_patches(&p, pixels, rows, cols, positions);
    for (int block = 0; block < m->vision.depth; block++) {
        if (!watch_go_on(watch, block, m->vision.depth)) return false;
        run_block(&p, &m->tower.blocks[block]);
        tap_block(&p, block, first_token);
    }
    merge_tokens(&p, &m->tower.merger, ws->features[0], first_token);
    return watch_go_on(watch, m->vision.depth, m->vision.depth);
}
