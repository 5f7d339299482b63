/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens and seconds of an answer, counted by completion_choices.c and written by the dialects. */
#ifndef EY_SERVER_API_USAGE_H
#define EY_SERVER_API_USAGE_H

#include "eyelet.h"

struct api_usage {
    int64_t prompt_tokens, completion_tokens;
    int cached_tokens, image_tokens;
    const ey_image_usage *images; /* [n_images] */
    size_t n_images;
    double vision_s, prefill_s, decode_s; /* of the first answer; all 0 if not measured */
    int64_t thinking_tokens;              /* part of completion_tokens */
    ey_repetition repetition;             /* of the first answer that a loop ended */
};

#endif
