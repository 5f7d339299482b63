/* Bytes that a model's weights take of a card. */
#ifndef EY_PLAN_WEIGHTS_H
#define EY_PLAN_WEIGHTS_H

#include "plan/plan.h"

struct weight_sizes {
    uint64_t decoder;             /* layers and the last norm */
    uint64_t head, head_8bit;     /* with the embedding, which an 8-bit head leaves on the host */
    uint64_t vision, vision_streamed; /* streamed: places for two groups, one in use while the other is filled, and staging */
    uint64_t head_stored, streamed_stored, vision_stored; /* what stays in the file: an exact head, what streams, all of a tower on the host */
    bool may_be_8bit;
};

struct weight_sizes weight_sizes(const struct model *model, const struct backend *be);

/* Runs `use` with Qwen3-VL-2B-FP8 as it is published, known by its shapes alone. */
void with_smaller_model(void (*use)(void *user, const struct model *model), void *user);
extern const char smaller_model_name[];

#endif
