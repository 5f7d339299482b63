/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's smaller public functions: struct versions, plan, properties. */
#include "engine/engine_internal.h"

#include <stddef.h>
#include <string.h>

#include "base/checked.h"
#include "eyelet/tool_calls.h"

/* Requires the fields up to the last one of the library's first version. */
bool engine_options_read(ey_engine_options *out, const ey_engine_options *given, ey_err *e)
{
    const size_t least = offsetof(ey_engine_options, notice_user) + sizeof(given->notice_user);
    return checked_struct(out, sizeof(*out), given, least, "ey_engine_defaults", e);
}

bool request_read(ey_request *out, const ey_request *given, ey_err *e)
{
    const size_t least = offsetof(ey_request, event_user) + sizeof(given->event_user);
    return checked_struct(out, sizeof(*out), given, least, "ey_request_defaults", e);
}

ey_part ey_text_part(const char *text)
{
    return (ey_part){.type = EY_PART_TEXT, .bytes = text, .n_bytes = strlen(text)};
}

ey_part ey_image_part(const void *bytes, size_t n_bytes)
{
    return (ey_part){.type = EY_PART_IMAGE, .bytes = bytes, .n_bytes = n_bytes};
}

const char *ey_version(void)
{
    return EY_VERSION;
}

const ey_plan_item *ey_engine_plan(const ey_engine *engine, size_t *n)
{
    *n = (size_t)engine->buffers.n_plan_items;
    return engine->buffers.plan_item;
}

ey_sampling ey_model_sampling(const ey_engine *engine)
{
    return engine->devices.model.sampling;
}

/* Returns the bytes of everything but weights and KV cache. */
static uint64_t workspace_bytes(const struct plan *p)
{
    return p->bytes[PLAN_IMAGE_CACHE] + p->bytes[PLAN_SHARED_WORKSPACE] +
           p->bytes[PLAN_DECODE_WORKSPACE] + p->bytes[PLAN_LOGITS] + p->bytes[PLAN_SCRATCH] +
           p->bytes[PLAN_HOST_BUFFERS] + p->bytes[PLAN_CPU_VISION_WORKSPACE] +
           p->bytes[PLAN_CPU_SCRATCH] + p->bytes[PLAN_CPU_WORKSPACE];
}

const ey_tool_format *ey_engine_tool_format(const ey_engine *engine)
{
    return engine->devices.model.family->tool_calls;
}

ey_engine_info ey_engine_describe(const ey_engine *engine)
{
    return (ey_engine_info){
        .directory = checkpoint_directory(engine->devices.ckpt),
        .architecture = engine->devices.model.family->architecture,
        .device = engine->devices.be->ops->name,
        .device_detail = engine->devices.be->ops->detail(engine->devices.be),
        .threads = pool_threads(engine->devices.pool),
        .max_model_len = engine->limits.max_model_len,
        .kv_tokens = engine->buffers.plan.kv.n_blocks * KV_BLOCK,
        .max_num_seqs = engine->limits.max_num_seqs,
        .vocab_size = engine->devices.model.text.vocab_size,
        .reads_images = engine->devices.model.vision.depth > 0,
        .weight_bytes = engine->devices.model.weight_bytes + engine->devices.model.quantized_bytes,
        .kv_bytes = engine->buffers.plan.bytes[PLAN_KV] + engine->buffers.plan.bytes[PLAN_CPU_KV],
        .workspace_bytes = workspace_bytes(&engine->buffers.plan),
        .load_seconds = engine->devices.load_seconds,
        .device_seconds = engine->devices.device_seconds,
        .device_bytes = engine->devices.device_info.is_gpu ? engine->buffers.plan.allocated : 0,
        .n_layers = engine->devices.model.text.n_layers,
        .gpu_layers = engine->devices.model.text.n_layers - engine->buffers.plan.cpu_layers,
        .lm_head_rows = !engine->buffers.bf16_head.data    ? NULL
                        : engine->buffers.rescores_on_host ? "host"
                                                           : "pinned",
        .tokens_per_second = engine->buffers.plan.tokens_per_second,
        .thinks = engine->devices.model.thinks,
    };
}
