/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the minimum FLOPs and bytes of a request from the model's shapes. Benchmarks divide them
 * by the measured time. */
#include "engine/schedule/refine_weights.h"

static double weight_stored_bytes(const struct tensor *w)
{
    const size_t scales = w->group_size                ? weight_group_scale_bytes(w)
                          : weight_has_block_scales(w) ? weight_block_scale_bytes(w)
                                                       : 0;
    return (double)(weight_data_bytes(w) + scales);
}

/* Returns the number of weights of one text layer. */
static double text_layer_parameters(const struct text_shape *t)
{
    double q = text_q_width(t), kv = text_kv_width(t);
    return (double)t->hidden * (2 * q + 2 * kv + 3 * (double)t->mlp);
}

static double text_layer_bytes(const struct text_layer_tensors *w)
{
    const struct tensor *matrices[] = {&w->attention.q, &w->attention.k, &w->attention.v,
                                       &w->attention.o, &w->mlp.gate,    &w->mlp.up,
                                       &w->mlp.down};
    double bytes = 0;
    for (size_t i = 0; i < sizeof(matrices) / sizeof(matrices[0]); i++)
        bytes += weight_stored_bytes(matrices[i]);
    return bytes;
}

/* Returns the bytes of the LM head that a step reads: 8-bit, or as stored. */
static double head_stored_bytes(const ey_engine *engine)
{
    const struct tensor *head = &engine->devices.model.head;
    return engine->buffers.bf16_head.data
               ? (double)head->rows * (double)head->cols + (double)weight_block_scale_bytes(head)
               : weight_stored_bytes(head);
}

static double vision_flops(const struct vision_shape *v, int width, int height)
{
    if (!v->depth) return 0;
    double patches = (double)(width / v->patch) * (double)(height / v->patch), hidden = v->hidden;
    double group = vision_group(v), wide = group * hidden;
    double block = 4 * hidden * hidden + 2 * hidden * (double)v->mlp,
           attention = 2 * patches * hidden;
    double encoder = patches * (hidden * (double)vision_patch_width(v) +
                                (double)v->depth * (block + attention));
    return 2 * (encoder + (1 + v->n_deepstack) * patches / group *
                              (wide * wide + wide * (double)v->out_hidden));
}

/* Returns the FLOPs of a prefill of n tokens; a token attends to half of the prompt on average. */
static double prefill_flops(const struct text_shape *t, double n)
{
    double attention = 2 * (double)text_q_width(t) * n / 2;
    return 2 * (n * (double)t->n_layers * (text_layer_parameters(t) + attention) +
                (double)t->hidden * (double)t->vocab_size);
}

ey_cost_estimate ey_estimate_cost(const ey_engine *engine, int width, int height, int prompt_tokens)
{
    const struct model *m = &engine->devices.model;
    struct kv_shape one_block = engine->buffers.plan.kv;
    one_block.n_blocks = 1;
    one_block.n_layers = model_layers_of_kind(m, LAYER_FULL_ATTENTION, 0, m->text.n_layers);
    double kv = (double)engine->devices.be->ops->memory->kv_bytes(engine->devices.be, &one_block) /
                KV_BLOCK * prompt_tokens,
           weights = head_stored_bytes(engine);
    for (int i = 0; i < m->text.n_layers; i++)
        weights += text_layer_bytes(&m->layers[i]);
    return (ey_cost_estimate){vision_flops(&m->vision, width, height),
                              prefill_flops(&m->text, prompt_tokens),
                              weights - (double)refine_weights_saved_bytes(engine) + kv};
}

bool ey_measure_roofline(ey_engine *engine, ey_roofline *limits, ey_err *e)
{
    struct device_roofline measured = {0};
    pthread_mutex_lock(&engine->devices.lock); /* the thread pool runs one job at a time */
    if (engine->devices.be->ops->device)
        engine->devices.be->ops->device->attach(engine->devices.be);
    bool ok = engine->devices.be->ops->measure_roofline(engine->devices.be, &measured, e);
    pthread_mutex_unlock(&engine->devices.lock);
    *limits = (ey_roofline){measured.bandwidth, measured.flops, measured.vector_flops};
    return ok;
}

bool ey_gpu_memory_usage(ey_engine *engine, uint64_t *used, uint64_t *total)
{
    struct gpu_info info;
    if (!engine->devices.device_info.is_gpu) return false;
    pthread_mutex_lock(&engine->devices.lock);
    engine->devices.be->ops->device->attach(engine->devices.be);
    bool ok = engine->devices.be->ops->device->info(engine->devices.be, &info, NULL);
    pthread_mutex_unlock(&engine->devices.lock);
    if (ok) {
        *used = info.total - info.free;
        *total = info.total;
    }
    return ok;
}
