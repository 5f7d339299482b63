/* SPDX-License-Identifier: Apache-2.0 */
/* One step of a text model (spec 3.1), for all families with pre-norm layers. DeepStack features,
 * if the model has them, are added after the first layers. */
#include "models/text_model.h"

int text_deepstack_layer(int level)
{
    return level;
}

/* State of a range's layers in one step. */
struct range_step {
    const struct model *m;
    const struct workspace *ws;
    struct layer_range *range;
    const struct step_buffers *buffers;
    const struct step *step;
    int n_prompt;
    int in_cache[LAYER_KINDS]; /* layers of each kind run so far: index of the next one in the
                                  kind's cache */
};

static struct range_step range_step_of(const struct model *m, struct workspace *ws, int i,
                                       const struct step *step)
{
    return (struct range_step){.m = m,
                               .ws = ws,
                               .range = &ws->range[i],
                               .buffers = range_buffers(&ws->range[i], step->n_rows),
                               .step = step,
                               .n_prompt = step_prompt_rows(step)};
}

/* o = attention(x), without the output projection. */
static void run_attention(const struct range_step *r, const struct attention *w, int kv_layer)
{
    struct backend *be = r->range->be;
    const struct compute_ops *op = be->ops->compute;
    const struct step_buffers *b = r->buffers;
    struct kv_cache *kv = &r->range->kv;
    if (op->qkv_attention) {
        op->qkv_attention(be, b->o, b->q, kv, kv_layer, b->x, w, &r->m->text, b->rope, r->step);
        return;
    }
    op->qkv(be, b->q, kv, kv_layer, b->x, w, &r->m->text, b->rope, r->step);
    op->attention(be, b->o, b->q, kv, kv_layer, &r->m->text, r->step);
}

static void run_text_layer(struct range_step *r, int layer)
{
    struct backend *be = r->range->be;
    const struct compute_ops *op = be->ops->compute;
    const struct step_buffers *b = r->buffers;
    const struct text_layer *w = &r->m->placed.layers[layer];
    const int n = r->step->n_rows;
    run_attention(r, &w->attention, r->in_cache[w->kind]++);
    op->project_add(be, b->x, b->o, w->attention.o, n, r->n_prompt);
    op->gate_up(be, b->h, b->x, &w->mlp, &r->m->text, n, r->n_prompt);
    op->project_add(be, b->x, b->h, w->mlp.down, n, r->n_prompt);
    for (int level = 0; level < r->m->vision.n_deepstack; level++)
        if (text_deepstack_layer(level) == layer)
            op->add_features(be, b->x, r->ws->features[1 + level].rows, r->step, r->m->text.hidden);
}

/* Returns false if the watch stopped the step. */
static bool run_layers(struct range_step *r, const struct watch *watch)
{
    r->range->be->ops->compute->rope_table(r->range->be, r->buffers->rope, &r->m->text_rope,
                                           r->step->position, r->step->n_rows);
    for (int layer = r->range->first; layer < r->range->end; layer++) {
        if (!watch_go_on(watch, layer, r->m->text.n_layers)) return false;
        run_text_layer(r, layer);
    }
    return true;
}

/* Transfers activations from a range in host memory to the next range, whose layers run after the
 * transfer. */
static void transfer_rows(const struct range_step *from, const struct range_step *to)
{
    to->range->be->ops->memory->write(to->range->be, to->buffers->x, from->buffers->x,
                                      ELEMENT_RESIDUAL,
                                      (size_t)to->step->n_rows * (size_t)to->m->text.hidden);
}

void text_model_logits(const struct model *m, struct workspace *ws, int n_rows, const int32_t *rows,
                       int n, float *logits)
{
    const struct layer_range *last = last_range(ws);
    last->be->ops->compute->lm_head(last->be, logits, range_buffers(last, n_rows)->x, rows, n,
                                    m->placed.final_norm, m->placed.head, &m->text);
}

bool text_model_enqueue(const struct model *m, struct workspace *ws, const struct step *step,
                        float *logits, const struct watch *watch, step_handle *handle)
{
    struct backend *last = last_range(ws)->be;
    const struct graph_ops *graph = last->ops->graph;
    struct range_step r, before;
    step_handle none;
    if (!handle) handle = &none;
    *handle = graph ? graph->launch(last, step) : 0;
    if (*handle) return true;
    for (int i = 0; i < ws->n_ranges; i++, before = r) {
        r = range_step_of(m, ws, i, step);
        if (i)
            transfer_rows(&before, &r);
        else
            r.range->be->ops->compute->embed(r.range->be, r.buffers->x, m->placed.embed,
                                             ws->features[0].rows, step);
        if (!run_layers(&r, watch)) return false;
    }
    if (!step->n_logits) return true;
    text_model_logits(m, ws, step->n_rows, step->logits_row, step->n_logits, logits);
    if (graph && handle != &none) *handle = graph->end_step(last);
    return true;
}
