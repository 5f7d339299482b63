/* One step of a decoder (spec 3.1): what all families with pre-norm GQA layers share. DeepStack features are added
 * after the first layers where the model has them. */
#include "models/decoder.h"

static void run_layer(const struct model *m, struct backend *be, struct workspace *ws, struct kv_cache *kv, int layer,
                      const struct batch *batch)
{
    const struct backend_ops *op = be->ops;
    const struct decoder_layer *w = &m->layers[layer];
    const struct weight no_bias = {0};
    op->qkv(be, ws->q, kv, layer, ws->x, w, &m->text, ws->rope, batch);
    op->attend(be, ws->o, ws->q, kv, layer, &m->text, batch);
    op->project_add(be, ws->x, ws->o, &w->o, &no_bias, batch->n_rows);
    op->gate_up(be, ws->h, ws->x, w, &m->text, batch->n_rows);
    op->project_add(be, ws->x, ws->h, &w->down, &no_bias, batch->n_rows);
    if (layer < m->vision.n_deepstack) op->add_features(be, ws->x, ws->features[1 + layer], batch, m->text.hidden);
}

bool decoder_step(const struct model *m, struct backend *be, struct workspace *ws, struct kv_cache *kv,
                  const struct batch *batch, const int32_t *out_rows, int n_out, float *logits, const struct watch *watch)
{
    be->ops->embed(be, ws->x, &m->embed, ws->features[0], batch);
    be->ops->rope_table(be, ws->rope, &m->text_rope, batch->position, batch->n_rows);
    for (int layer = 0; layer < m->text.n_layers; layer++) {
        if (!watch_go_on(watch, layer, m->text.n_layers)) return false;
        run_layer(m, be, ws, kv, layer, batch);
    }
    if (n_out) be->ops->head(be, logits, ws->x, out_rows, n_out, &m->final_norm, &m->head, &m->text);
    return true;
}
