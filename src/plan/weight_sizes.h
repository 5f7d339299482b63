/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that a model's weights take of a GPU. */
#ifndef EY_PLAN_WEIGHTS_H
#define EY_PLAN_WEIGHTS_H

#include "base/limits.h"
#include "plan/memory_plan.h"

struct weight_sizes {
    uint64_t text;                  /* layers and the last norm */
    uint64_t lm_head, lm_head_8bit; /* with the embedding, which an 8-bit head leaves on the host */
    uint64_t lm_head_only, embed_file; /* where the first layers, and with them the embedding, are
                                          on the host; 0: the head is the embedding */
    uint64_t cpu_layers[EY_MAX_LAYERS + 1]; /* of the text model, the first n layers */
    uint64_t cpu_layers_file[EY_MAX_LAYERS + 1],
        cpu_layers_quantized[EY_MAX_LAYERS +
                             1];      /* on the host: in the file, and quantized while loading */
    uint64_t vision, vision_streamed; /* streamed: places for two groups, one in use while the other
                                         is filled, and staging */
    uint64_t lm_head_file, vision_streamed_file,
        vision_file; /* what stays in the file: an exact head, what streams, all of a vision encoder
                        on the host */
    bool lm_head_may_be_8bit;
};

struct weight_sizes weight_sizes(const struct model *model, const struct backend *be);

/* Runs `use` with Qwen3-VL-2B-FP8 as it is published, known by its shapes alone. */
void with_smaller_model(void (*use)(void *user, const struct model *model), void *user);
extern const char smaller_model_name[];

#endif
