/* SPDX-License-Identifier: Apache-2.0 */
/* ey_answer → JSON text. */
#include "cli/output/answer_json.h"

#include <math.h>
#include <string.h>

#include "base/json.h"

bool json_add_text(struct buf *out, const char *text)
{
    return json_dump_string(out, text, strlen(text));
}

bool json_add_usage(struct buf *out, const ey_answer *answer)
{
    buf_printf(out, "{\"prompt_tokens\": %d, \"completion_tokens\": %d, ", answer->prompt_tokens,
               answer->completion_tokens);
    buf_printf(out,
               "\"prompt_tokens_details\": {\"cached_tokens\": %d, \"multimodal_tokens\": "
               "{\"image\": %d}}, ",
               answer->cached_tokens, answer->image_tokens);
    buf_add_text(out, "\"images\": [");
    for (size_t i = 0; i < answer->n_images; i++) {
        const ey_image_usage *image = &answer->images[i];
        buf_printf(out,
                   "%s{\"width\": %d, \"height\": %d, \"used_width\": %d, \"used_height\": %d, "
                   "\"tokens\": %d}",
                   i ? ", " : "", image->width, image->height, image->used_width,
                   image->used_height, image->tokens);
    }
    return buf_add_text(out, "]}");
}

bool json_add_timings(struct buf *out, const ey_answer *answer, double load_seconds)
{
    return buf_printf(
        out, "{\"load_s\": %.4f, \"vision_s\": %.4f, \"prefill_s\": %.4f, \"decode_s\": %.4f}",
        load_seconds, answer->vision_seconds, answer->prefill_seconds, answer->decode_seconds);
}

bool json_add_usage_and_timings(struct buf *out, const ey_answer *answer, double load_seconds)
{
    buf_add_text(out, ", \"usage\": ");
    json_add_usage(out, answer);
    buf_add_text(out, ", \"timings\": ");
    return json_add_timings(out, answer, load_seconds);
}

/* The members "token" and "logprob"; nine digits give back the same float. JSON has no infinity. */
static void json_add_logprob(struct buf *out, const ey_logprob *logprob)
{
    buf_add_text(out, "\"token\": ");
    json_add_text(out, logprob->token);
    buf_add_text(out, ", \"logprob\": ");
    if (isfinite(logprob->logprob))
        buf_printf(out, "%.9g", (double)logprob->logprob);
    else
        buf_add_text(out, "null");
}

bool json_add_logprobs(struct buf *out, const ey_answer *answer, bool wanted)
{
    if (!wanted) return buf_add_text(out, "null");
    buf_add_text(out, "[");
    for (size_t i = 0; i < answer->n_logprobs; i++) {
        const ey_token_logprobs *at = &answer->logprobs[i];
        buf_add_text(out, i ? ", {" : "{");
        json_add_logprob(out, &at->chosen);
        buf_add_text(out, ", \"top\": [");
        for (size_t k = 0; k < at->n_top; k++) {
            buf_add_text(out, k ? ", {" : "{");
            json_add_logprob(out, &at->top[k]);
            buf_add_text(out, "}");
        }
        buf_add_text(out, "]}");
    }
    return buf_add_text(out, "]");
}
