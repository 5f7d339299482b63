/* SPDX-License-Identifier: Apache-2.0 */
/* One step of a text model (spec 3.1): what all families with pre-norm GQA layers share. DeepStack
 * features are added after the first layers where the model has them. */
#include "models/text_model.h"

/* A range of layers on one backend. */
struct layer_range {
    struct backend *be;
    const struct step_buffers *buffers;
    struct kv_cache *kv;
    int begin, end;
};

static void run_text_layer(const struct model *m, const struct layer_range *s,
                           const struct workspace *ws, int layer, const struct batch *batch)
{
    struct backend *be = s->be;
    const struct backend_ops *op = be->ops;
    const struct step_buffers *b = s->buffers;
    const struct text_layer *w = &m->placed.layers[layer];
    const int kv_layer = layer - s->begin; /* in the cache */
    if (op->compute->qkv_attention) {
        op->compute->qkv_attention(be, b->o, b->q, s->kv, kv_layer, b->x, w, &m->text, b->rope,
                                   batch);
    } else {
        op->compute->qkv(be, b->q, s->kv, kv_layer, b->x, w, &m->text, b->rope, batch);
        op->compute->attention(be, b->o, b->q, s->kv, kv_layer, &m->text, batch);
    }
    op->compute->project_add(be, b->x, b->o, w->o, batch->n_rows, batch->n_prompt);
    op->compute->gate_up(be, b->h, b->x, w, &m->text, batch->n_rows, batch->n_prompt);
    op->compute->project_add(be, b->x, b->h, w->down, batch->n_rows, batch->n_prompt);
    if (layer < m->vision.n_deepstack)
        op->compute->add_features(be, b->x, ws->features[1 + layer], batch, m->text.hidden);
}

/* False: stopped by the watch. */
static bool run_layer_range(const struct model *m, const struct layer_range *s,
                            const struct workspace *ws, const struct batch *batch,
                            const struct watch *watch)
{
    s->be->ops->compute->rope_table(s->be, s->buffers->rope, &m->text_rope, batch->position,
                                    batch->n_rows);
    for (int layer = s->begin; layer < s->end; layer++) {
        if (!watch_go_on(watch, layer, m->text.n_layers)) return false;
        run_text_layer(m, s, ws, layer, batch);
    }
    return true;
}

bool text_model_step(const struct model *m, struct backend *be, const struct workspace *ws,
                     const struct step_buffers *b, struct kv_cache *kv, const struct batch *batch,
                     const int32_t *out_rows, int n_out, float *logits, const struct watch *watch)
{
    const struct cpu_layers *cpu_layers = ws->cpu_layers;
    const struct layer_range last = {be, b, kv, cpu_layers ? cpu_layers->n_layers : 0,
                                     m->text.n_layers};
    if (be->ops->graph && be->ops->graph->launch_graph(be, batch, n_out)) return true;
    if (cpu_layers) {
        struct kv_cache cpu_kv = cpu_layers->kv;
        const struct layer_range host = {cpu_layers->be, &cpu_layers->buffers, &cpu_kv, 0,
                                         cpu_layers->n_layers};
        host.be->ops->compute->embed(host.be, host.buffers->x, m->placed.embed, ws->features[0],
                                     batch);
        if (!run_layer_range(m, &host, ws, batch, watch)) return false;
        be->ops->memory->write(be, b->x, host.buffers->x, ELEMENT_RESIDUAL,
                               (size_t)batch->n_rows *
                                   (size_t)m->text.hidden); /* in order before the layers there */
    } else {
        be->ops->compute->embed(be, b->x, m->placed.embed, ws->features[0], batch);
    }
    if (!run_layer_range(m, &last, ws, batch, watch)) return false;
    if (n_out)
        be->ops->compute->lm_head(be, logits, b->x, out_rows, n_out, m->placed.final_norm,
                                  m->placed.head, &m->text);
    return true;
}
