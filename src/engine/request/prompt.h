/* SPDX-License-Identifier: Apache-2.0 */
/* A prompt, prepared on the caller's thread: ids, positions, and images at the model's input size.
 * Immutable, so any number of generations may share it. */
#ifndef EY_ENGINE_REQUEST_PROMPT_H
#define EY_ENGINE_REQUEST_PROMPT_H

#include <stdatomic.h>

#include "engine/cache/digest.h"
#include "eyelet/request.h"
#include "models/model.h"
#include "models/layers/mrope_positions.h"

struct prompt_image {
    struct image pixels; /* at the model's input size */
    int rows, cols;      /* patches */
    int tokens;          /* rows/merge · cols/merge */
    struct digest digest;
    struct image_span span; /* position of its tokens in the prompt */
};

struct ey_prompt {
    atomic_int refs;
    struct ids ids;
    int32_t *position;           /* [ids.n, 3] */
    int32_t next_position;       /* of the first generated token */
    struct prompt_image *images; /* [n_images], in order of appearance */
    size_t n_images;
    ey_image_usage *usage; /* [n_images] */
    int image_tokens;
    uint64_t kv_bytes;
    bool pools;         /* it is for a vector or a score, not a text */
    bool is_turn;       /* made from messages, so the answer is the assistant's turn */
    bool opens_thought; /* the prompt ends inside a thought */
    ey_budget *budget;  /* the pixels are charged to it */
    uint64_t budget_bytes;
    struct arena arena; /* of the arrays */
};

void prompt_ref(ey_prompt *prompt); /* ey_prompt_free drops the reference */

/* Whether the image's last token is before row `end`. */
static inline bool prompt_image_ends_before(const struct prompt_image *p, size_t end)
{
    return p->span.first + (size_t)p->tokens <= end;
}

#endif
