/* SPDX-License-Identifier: Apache-2.0 */
/* One step of a decoder (spec 3.1): what all families with pre-norm GQA layers share. DeepStack
 * features are added after the first layers where the model has them. */
#include "models/decoder.h"

/* A stretch of layers on one backend. */
struct stretch {
    struct backend *be;
    const struct step_buffers *b;
    struct kv_cache *kv;
    int begin, end;
};

static void run_layer(const struct model *m, const struct stretch *s, const struct workspace *ws,
                      int layer, const struct batch *batch)
{
    struct backend *be = s->be;
    const struct backend_ops *op = be->ops;
    const struct step_buffers *b = s->b;
    const struct decoder_layer *w = &m->layers[layer];
    const int place = layer - s->begin; /* in the cache */
    if (op->qkv_attend) {
        op->qkv_attend(be, b->o, b->q, s->kv, place, b->x, w, &m->text, b->rope, batch);
    } else {
        op->qkv(be, b->q, s->kv, place, b->x, w, &m->text, b->rope, batch);
        op->attend(be, b->o, b->q, s->kv, place, &m->text, batch);
    }
    op->project_add(be, b->x, b->o, &w->o, batch->n_rows, batch->n_prompt);
    op->gate_up(be, b->h, b->x, w, &m->text, batch->n_rows, batch->n_prompt);
    op->project_add(be, b->x, b->h, &w->down, batch->n_rows, batch->n_prompt);
    if (layer < m->vision.n_deepstack)
        op->add_features(be, b->x, ws->features[1 + layer], batch, m->text.hidden);
}

/* False: stopped by the watch. */
static bool run_stretch(const struct model *m, const struct stretch *s, const struct workspace *ws,
                        const struct batch *batch, const struct watch *watch)
{
    s->be->ops->rope_table(s->be, s->b->rope, &m->text_rope, batch->position, batch->n_rows);
    for (int layer = s->begin; layer < s->end; layer++) {
        if (!watch_go_on(watch, layer, m->text.n_layers)) return false;
        run_layer(m, s, ws, layer, batch);
    }
    return true;
}

bool decoder_step(const struct model *m, struct backend *be, const struct workspace *ws,
                  const struct step_buffers *b, struct kv_cache *kv, const struct batch *batch,
                  const int32_t *out_rows, int n_out, float *logits, const struct watch *watch)
{
    const struct first_layers *first = ws->first;
    const struct stretch rest = {be, b, kv, first ? first->n : 0, m->text.n_layers};
    if (be->ops->replay && be->ops->replay(be, batch, n_out)) return true;
    if (first) {
        struct kv_cache theirs = first->kv;
        const struct stretch host = {first->be, &first->buffers, &theirs, 0, first->n};
        host.be->ops->embed(host.be, host.b->x, &m->embed, ws->features[0], batch);
        if (!run_stretch(m, &host, ws, batch, watch)) return false;
        be->ops->write(be, b->x, host.b->x, ELEMENT_RESIDUAL,
                       (size_t)batch->n_rows *
                           (size_t)m->text.hidden); /* in order before the layers there */
    } else {
        be->ops->embed(be, b->x, &m->embed, ws->features[0], batch);
    }
    if (!run_stretch(m, &rest, ws, batch, watch)) return false;
    if (n_out) be->ops->head(be, logits, b->x, out_rows, n_out, &m->final_norm, &m->head, &m->text);
    return true;
}
