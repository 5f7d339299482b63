/* SPDX-License-Identifier: Apache-2.0 */
/* The least work of a request, counted from the model's shape: what figures are shares of. */
#include "engine/engine_internal.h"

static double stored_bytes(const struct weight *w)
{
    if (w->dtype == DTYPE_INT4) return (double)w->rows * (double)w->cols * (0.5 + 2.0 / w->group);
    double scales = w->scale ? (double)((w->rows + FP8_BLOCK - 1) / FP8_BLOCK) *
                                   (double)((w->cols + FP8_BLOCK - 1) / FP8_BLOCK)
                             : 0;
    return (double)w->rows * (double)w->cols * (double)dtype_size(w->dtype) + 4 * scales;
}

/* Weights of one decoder layer. */
static double layer_parameters(const struct text_shape *t)
{
    double q = text_q_width(t), kv = text_kv_width(t);
    return (double)t->hidden * (2 * q + 2 * kv + 3 * (double)t->mlp);
}

static double layer_bytes(const struct decoder_layer *w)
{
    const struct weight *matrices[] = {&w->q, &w->k, &w->v, &w->o, &w->gate, &w->up, &w->down};
    double bytes = 0;
    for (size_t i = 0; i < sizeof(matrices) / sizeof(matrices[0]); i++)
        bytes += stored_bytes(matrices[i]);
    return bytes;
}

static double vision_flops(const struct vision_shape *v, int width, int height)
{
    if (!v->depth) return 0;
    double patches = (double)(width / v->patch) * (double)(height / v->patch), hidden = v->hidden;
    double group = vision_group(v), wide = group * hidden;
    double block = 4 * hidden * hidden + 2 * hidden * (double)v->mlp,
           attention = 2 * patches * hidden;
    double tower = patches * (hidden * (double)vision_patch_width(v) +
                              (double)v->depth * (block + attention));
    return 2 * (tower + (1 + v->n_deepstack) * patches / group *
                            (wide * wide + wide * (double)v->out_hidden));
}

/* A token sees half of the prompt on average. */
static double prefill_flops(const struct text_shape *t, double n)
{
    double attention = 2 * (double)text_q_width(t) * n / 2;
    return 2 * (n * (double)t->n_layers * (layer_parameters(t) + attention) +
                (double)t->hidden * (double)t->vocabulary);
}

ey_work ey_work_of(const ey_engine *engine, int width, int height, int prompt_tokens)
{
    const struct model *m = &engine->model;
    struct kv_shape one_block = engine->kv.shape;
    one_block.n_blocks = 1;
    one_block.n_layers = m->text.n_layers;
    double kv = (double)engine->be->ops->kv_bytes(engine->be, &one_block) / KV_BLOCK *
                prompt_tokens,
           weights = stored_bytes(&m->head);
    for (int i = 0; i < m->text.n_layers; i++)
        weights += layer_bytes(&m->layers[i]);
    return (ey_work){vision_flops(&m->vision, width, height),
                     prefill_flops(&m->text, prompt_tokens),
                     weights - (double)engine_bytes_less(engine) + kv};
}

bool ey_measure_limits(ey_engine *engine, ey_limits *limits, ey_err *e)
{
    struct device_limits measured = {0};
    pthread_mutex_lock(&engine->device); /* the thread team does one thing at a time */
    if (engine->be->ops->attach) engine->be->ops->attach(engine->be);
    bool ok = engine->be->ops->measure(engine->be, &measured, e);
    pthread_mutex_unlock(&engine->device);
    *limits = (ey_limits){measured.read, measured.flops, measured.vector_flops};
    return ok;
}

bool ey_device_memory(ey_engine *engine, uint64_t *used, uint64_t *total)
{
    struct cuda_facts facts;
    if (!engine->facts.card) return false;
    pthread_mutex_lock(&engine->device);
    engine->be->ops->attach(engine->be);
    bool ok = backend_cuda_facts(engine->be, &facts, NULL);
    pthread_mutex_unlock(&engine->device);
    if (ok) {
        *used = facts.total - facts.free;
        *total = facts.total;
    }
    return ok;
}
