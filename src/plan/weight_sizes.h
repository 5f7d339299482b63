/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a model's weights on a GPU. */
#ifndef EY_PLAN_WEIGHT_SIZES_H
#define EY_PLAN_WEIGHT_SIZES_H

#include "base/limits.h"
#include "plan/memory_plan.h"

struct weight_sizes {
    uint64_t text;                  /* layers and final norm */
    uint64_t lm_head, lm_head_8bit; /* with the embedding, which an 8-bit head leaves on the host */
    uint64_t lm_head_only, embed_file;      /* for layers on the CPU: the head alone, and the
                                               embedding in the file (0 if it is the head) */
    uint64_t cpu_layers[EY_MAX_LAYERS + 1]; /* of the text model's first n layers */
    uint64_t cpu_layers_file[EY_MAX_LAYERS + 1],
        cpu_layers_quantized[EY_MAX_LAYERS +
                             1];      /* on the host: in the file, and quantized while loading */
    uint64_t vision, vision_streamed; /* streamed: buffers for two groups, one used while the other
                                         is filled, and staging */
    uint64_t lm_head_file, vision_streamed_file,
        vision_file; /* read from the file: a BF16 head, streamed weights, or a vision encoder on
                        the host */
    bool lm_head_may_be_8bit;
};

struct weight_sizes weight_sizes(const struct model *model, const struct backend *be);

/* Calls `use` with the published Qwen3-VL-2B-FP8, made from its shapes alone. */
void with_smaller_model(void (*use)(void *user, const struct model *model), void *user);
extern const char smaller_model_name[];

#endif
