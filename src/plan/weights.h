/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that a model's weights take of a card. */
#ifndef EY_PLAN_WEIGHTS_H
#define EY_PLAN_WEIGHTS_H

#include "base/limits.h"
#include "plan/plan.h"

struct weight_sizes {
    uint64_t decoder;         /* layers and the last norm */
    uint64_t head, head_8bit; /* with the embedding, which an 8-bit head leaves on the host */
    uint64_t head_alone, embed_stored; /* where the first layers, and with them the embedding, are
                                          on the host; 0: the head is the embedding */
    uint64_t first[EY_MAX_LAYERS + 1]; /* of the decoder, the first n layers */
    uint64_t first_stored[EY_MAX_LAYERS + 1],
        first_made[EY_MAX_LAYERS + 1]; /* on the host: in the file, and quantised while loading */
    uint64_t vision, vision_streamed; /* streamed: places for two groups, one in use while the other
                                         is filled, and staging */
    uint64_t head_stored, streamed_stored,
        vision_stored; /* what stays in the file: an exact head, what streams, all of a tower on the
                          host */
    bool may_be_8bit;
};

struct weight_sizes weight_sizes(const struct model *model, const struct backend *be);

/* Runs `use` with Qwen3-VL-2B-FP8 as it is published, known by its shapes alone. */
void with_smaller_model(void (*use)(void *user, const struct model *model), void *user);
extern const char smaller_model_name[];

#endif
