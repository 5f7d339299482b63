/* SPDX-License-Identifier: Apache-2.0 */
/* Writes an ey_answer as JSON. */
#include "cli/output/answer_json.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"

static void write_image(struct json_writer *w, const ey_image_usage *image)
{
    json_open_object(w);
    json_add_int(w, "width", image->width);
    json_add_int(w, "height", image->height);
    json_add_int(w, "used_width", image->used_width);
    json_add_int(w, "used_height", image->used_height);
    json_add_int(w, "tokens", image->tokens);
    json_close_object(w);
}

void answer_write_usage(struct json_writer *w, const ey_answer *answer)
{
    json_open_object(w);
    json_add_int(w, "prompt_tokens", answer->prompt_tokens);
    json_add_int(w, "completion_tokens", answer->completion_tokens);
    json_write_key(w, "prompt_tokens_details");
    json_open_object(w);
    json_add_int(w, "cached_tokens", answer->cached_tokens);
    json_write_key(w, "multimodal_tokens");
    json_open_object(w);
    json_add_int(w, "image", answer->image_tokens);
    json_close_object(w);
    json_close_object(w);
    json_write_key(w, "images");
    json_open_array(w);
    for (size_t i = 0; i < answer->n_images; i++)
        write_image(w, &answer->images[i]);
    json_close_array(w);
    json_close_object(w);
}

void answer_write_timings(struct json_writer *w, const ey_answer *answer, double load_seconds)
{
    json_open_object(w);
    json_add_fixed(w, "load_s", load_seconds, 4);
    json_add_fixed(w, "vision_s", answer->vision_seconds, 4);
    json_add_fixed(w, "prefill_s", answer->prefill_seconds, 4);
    json_add_fixed(w, "decode_s", answer->decode_seconds, 4);
    json_close_object(w);
}

void answer_add_usage_and_timings(struct json_writer *w, const ey_answer *answer,
                                  double load_seconds)
{
    json_write_key(w, "usage");
    answer_write_usage(w, answer);
    json_write_key(w, "timings");
    answer_write_timings(w, answer, load_seconds);
}

/* Writes nine digits, from which the same float can be read back. */
static void add_logprob(struct json_writer *w, const ey_logprob *logprob)
{
    json_add_string(w, "token", logprob->token);
    json_add_digits(w, "logprob", (double)logprob->logprob, 9);
}

static void write_token_logprobs(struct json_writer *w, const ey_token_logprobs *at)
{
    json_open_object(w);
    add_logprob(w, &at->chosen);
    json_write_key(w, "top");
    json_open_array(w);
    for (size_t k = 0; k < at->n_top; k++) {
        json_open_object(w);
        add_logprob(w, &at->top[k]);
        json_close_object(w);
    }
    json_close_array(w);
    json_close_object(w);
}

void answer_write_logprobs(struct json_writer *w, const ey_answer *answer, bool wanted)
{
    if (!wanted) {
        json_write_null(w);
        return;
    }
    json_open_array(w);
    for (size_t i = 0; i < answer->n_logprobs; i++)
        write_token_logprobs(w, &answer->logprobs[i]);
    json_close_array(w);
}

void answer_print_logprobs(const ey_answer *answer)
{
    for (size_t i = 0; i < answer->n_logprobs; i++) {
        const ey_token_logprobs *at = &answer->logprobs[i];
        struct buf line = buf_with_max((size_t)1 << 20);
        buf_printf(&line, "%.6f\t", (double)at->chosen.logprob);
        json_dump_string(&line, at->chosen.token, strlen(at->chosen.token));
        for (size_t k = 0; k < at->n_top; k++) {
            buf_printf(&line, "\t%.6f ", (double)at->top[k].logprob);
            json_dump_string(&line, at->top[k].token, strlen(at->top[k].token));
        }
        if (!line.failed) fprintf(stderr, "%s\n", line.data);
        buf_free(&line);
    }
}
