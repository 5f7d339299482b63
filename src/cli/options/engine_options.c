/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/engine_options.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

/* Maps vLLM's names of the data types to ours. */
static const char *kv_dtype_of(const char *name)
{
    if (name && strcmp(name, "bfloat16") == 0) return "bf16";
    if (name && strcmp(name, "fp8_e4m3") == 0) return "fp8";
    return name;
}

static const char *task_of(const char *name)
{
    if (name && strcmp(name, "embedding") == 0) return "embed";
    if (name && strcmp(name, "score") == 0) return "rerank";
    return name;
}

static bool read_layers(int *out, const char *text, ey_err *e)
{
    char *end;
    if (!text) return true;
    long n = strcmp(text, "auto") == 0 ? EY_LAYERS_AUTO : strtol(text, &end, 10);
    if (n != EY_LAYERS_AUTO &&
        (!isdigit((unsigned char)text[0]) || *end || n < 1 || n > EY_MAX_LAYERS))
        return ey_fail(e, EY_BAD_REQUEST,
                       "--gpu-layers takes auto or a number from 1 to %d, not \"%.40s\"; to "
                       "run no layer on the GPU, use --device cpu",
                       EY_MAX_LAYERS, text);
    *out = (int)n;
    return true;
}

bool engine_options_set(ey_engine_options *engine, const struct options *o, ey_err *e)
{
    double share = o->gpu_memory_utilization;
    if (!isnan(share) && share <= 0)
        return ey_fail(e, EY_BAD_REQUEST,
                       "--gpu-memory-utilization is %g; it must be above 0 and at most 1", share);
    if (!isnan(share) && o->gpu_memory)
        return ey_fail(
            e, EY_BAD_REQUEST,
            "--gpu-memory-utilization and --gpu-memory set the same limit: give one of them");
    if (o->device) engine->device = o->device;
    engine->cpu_mask = o->cpu_mask;
    engine->threads = (int)o->threads;
    engine->no_huge_pages = o->no_huge_pages;
    engine->max_model_len = (int)o->max_model_len;
    engine->kv_tokens = (int)o->kv_tokens;
    engine->max_num_seqs = (int)o->max_num_seqs;
    engine->max_num_batched_tokens = (int)o->max_num_batched_tokens;
    engine->max_pixels = o->max_pixels == MAX_PIXELS_NATIVE ? UINT64_MAX : (uint64_t)o->max_pixels;
    engine->kv_cache_dtype = kv_dtype_of(o->kv_cache_dtype);
    engine->lm_head = o->lm_head;
    engine->lm_head_rows = o->lm_head_rows;
    engine->vision_weights = o->vision_weights;
    engine->prefill_math = o->prefill_math;
    engine->quantize = o->quantize;
    engine->task = task_of(o->task);
    engine->group_size = (int)o->group_size;
    engine->gpu_memory_utilization = isnan(share) ? 0 : share;
    engine->gpu_memory = (uint64_t)o->gpu_memory;
    if (!read_layers(&engine->gpu_layers, o->gpu_layers, e)) return false;
    engine->cpu_memory = (uint64_t)o->cpu_memory;
    engine->enforce_eager = o->enforce_eager;
    engine->vram = (uint64_t)o->vram;
    engine->vram_used = (uint64_t)o->vram_used;
    engine->sm_count = (int)o->sm_count;
    return true;
}
