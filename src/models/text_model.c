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
                           const struct workspace *ws, int layer, const struct step *step)
{
    struct backend *be = s->be;
    const struct backend_ops *op = be->ops;
    const struct step_buffers *b = s->buffers;
    const struct text_layer *w = &m->placed.layers[layer];
    const int kv_layer = layer - s->begin; /* in the cache */
    const int n_prompt = step_prompt_rows(step);
    if (op->compute->qkv_attention) {
        op->compute->qkv_attention(be, b->o, b->q, s->kv, kv_layer, b->x, w, &m->text, b->rope,
                                   step);
    } else {
        op->compute->qkv(be, b->q, s->kv, kv_layer, b->x, w, &m->text, b->rope, step);
        op->compute->attention(be, b->o, b->q, s->kv, kv_layer, &m->text, step);
    }
    op->compute->project_add(be, b->x, b->o, w->o, step->n_rows, n_prompt);
    op->compute->gate_up(be, b->h, b->x, w, &m->text, step->n_rows, n_prompt);
    op->compute->project_add(be, b->x, b->h, w->down, step->n_rows, n_prompt);
    if (layer < m->vision.n_deepstack)
        op->compute->add_features(be, b->x, ws->features[1 + layer], step, m->text.hidden);
}

/* False: stopped by the watch. */
static bool run_layer_range(const struct model *m, const struct layer_range *s,
                            const struct workspace *ws, const struct step *step,
                            const struct watch *watch)
{
    s->be->ops->compute->rope_table(s->be, s->buffers->rope, &m->text_rope, step->position,
                                    step->n_rows);
    for (int layer = s->begin; layer < s->end; layer++) {
        if (!watch_go_on(watch, layer, m->text.n_layers)) return false;
        run_text_layer(m, s, ws, layer, step);
    }
    return true;
}

void text_model_logits(const struct model *m, struct backend *be, const struct step_buffers *b,
                       const int32_t *rows, int n, float *logits)
{
    be->ops->compute->lm_head(be, logits, b->x, rows, n, m->placed.final_norm, m->placed.head,
                              &m->text);
}

/* The layers on the CPU; their result goes to the GPU, in order before its own layers. */
static bool run_cpu_layers(const struct model *m, struct backend *be, const struct workspace *ws,
                           const struct step_buffers *b, const struct step *step,
                           const struct watch *watch)
{
    const struct cpu_layers *cpu_layers = ws->cpu_layers;
    struct kv_cache cpu_kv = cpu_layers->kv;
    const struct layer_range host = {cpu_layers->be, &cpu_layers->buffers, &cpu_kv, 0,
                                     cpu_layers->n_layers};
    host.be->ops->compute->embed(host.be, host.buffers->x, m->placed.embed, ws->features[0], step);
    if (!run_layer_range(m, &host, ws, step, watch)) return false;
    be->ops->memory->write(be, b->x, host.buffers->x, ELEMENT_RESIDUAL,
                           (size_t)step->n_rows * (size_t)m->text.hidden);
    return true;
}

bool text_model_enqueue(const struct model *m, struct backend *be, const struct workspace *ws,
                        const struct step_buffers *b, struct kv_cache *kv, const struct step *step,
                        float *logits, const struct watch *watch, step_handle *handle)
{
    const struct graph_ops *graph = be->ops->graph;
    const struct layer_range last = {be, b, kv, ws->cpu_layers ? ws->cpu_layers->n_layers : 0,
                                     m->text.n_layers};
    step_handle none;
    if (!handle) handle = &none;
    *handle = graph ? graph->launch(be, step) : 0;
    if (*handle) return true;
    if (!ws->cpu_layers)
        be->ops->compute->embed(be, b->x, m->placed.embed, ws->features[0], step);
    else if (!run_cpu_layers(m, be, ws, b, step, watch))
        return false;
    if (!run_layer_range(m, &last, ws, step, watch)) return false;
    if (!step->n_logits) return true;
    text_model_logits(m, be, b, step->logits_row, step->n_logits, logits);
    if (graph && handle != &none) *handle = graph->end_step(be);
    return true;
}
