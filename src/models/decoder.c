/* One step of a decoder (spec 3.1): what all families with pre-norm GQA layers share. DeepStack features are added
 * after the first layers where the model has them. */
#include "models/decoder.h"

static void run_layer(const struct model *m, struct backend *be, const struct workspace *ws, const struct step_buffers *b,
                      struct kv_cache *kv, int layer, const struct batch *batch)
{
    const struct backend_ops *op = be->ops;
    const struct decoder_layer *w = &m->layers[layer];
    const struct weight no_bias = {0};
    if (op->qkv_attend) {
        op->qkv_attend(be, b->o, b->q, kv, layer, b->x, w, &m->text, b->rope, batch);
    } else {
        op->qkv(be, b->q, kv, layer, b->x, w, &m->text, b->rope, batch);
        op->attend(be, b->o, b->q, kv, layer, &m->text, batch);
    }
    op->project_add(be, b->x, b->o, &w->o, &no_bias, batch->n_rows);
    op->gate_up(be, b->h, b->x, w, &m->text, batch->n_rows);
    op->project_add(be, b->x, b->h, &w->down, &no_bias, batch->n_rows);
    if (layer < m->vision.n_deepstack) op->add_features(be, b->x, ws->features[1 + layer], batch, m->text.hidden);
}

bool decoder_step(const struct model *m, struct backend *be, const struct workspace *ws, const struct step_buffers *b,
                  struct kv_cache *kv, const struct batch *batch, const int32_t *out_rows, int n_out, float *logits,
                  const struct watch *watch)
{
    if (be->ops->replay && be->ops->replay(be, batch, n_out)) return true;
    be->ops->embed(be, b->x, &m->embed, ws->features[0], batch);
    be->ops->rope_table(be, b->rope, &m->text_rope, batch->position, batch->n_rows);
    for (int layer = 0; layer < m->text.n_layers; layer++) {
        if (!watch_go_on(watch, layer, m->text.n_layers)) return false;
        run_layer(m, be, ws, b, kv, layer, batch);
    }
    if (n_out) be->ops->head(be, logits, b->x, out_rows, n_out, &m->final_norm, &m->head, &m->text);
    return true;
}
