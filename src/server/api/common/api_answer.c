/* SPDX-License-Identifier: Apache-2.0 */
/* Common to all answers: ids, times, log-probabilities, and upper bounds of their JSON's size. */
#include "server/api/common/api_answer.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "server/api/common/api_charge.h"
#include "server/api/common/api_dialect.h"

void api_random_id(char out[48], const char *prefix)
{
    unsigned char bytes[16] = {0};
    size_t n = (size_t)snprintf(out, 48, "%s", prefix);
    if (getrandom(bytes, sizeof(bytes), 0) < 0)
        memset(bytes, 0, sizeof(bytes)); /* ids are not secret, so zeros are acceptable */
    for (size_t i = 0; i < sizeof(bytes) && n + 2 * i + 3 <= 48; i++)
        snprintf(out + n + 2 * i, 3, "%02x", bytes[i]);
}

struct api_reply api_reply_start(const struct api_dialect *dialect, const char *model)
{
    struct api_reply reply = {
        .kind = dialect->kind, .created = (int64_t)time(NULL), .model = model};
    api_random_id(reply.id, dialect->id_prefix);
    return reply;
}

/* {"token": ..., "logprob": ..., "bytes": [one number per byte]} */
static uint64_t logprob_bytes(const ey_logprob *candidate)
{
    enum { NAMES_AND_NUMBER = 64, BYTE = 4 };
    return NAMES_AND_NUMBER + api_json_text_bytes(candidate->token, strlen(candidate->token)) +
           candidate->n_bytes * BYTE;
}

uint64_t api_logprobs_bytes(const struct api_logprobs *logprobs)
{
    enum { AROUND = 64 };
    uint64_t bytes = AROUND;
    for (size_t i = 0; logprobs->tokens && i < logprobs->n; i++) {
        const ey_token_logprobs *at = &logprobs->tokens[i];
        bytes += AROUND + logprob_bytes(&at->chosen);
        for (size_t k = 0; k < at->n_top; k++)
            bytes += logprob_bytes(&at->top[k]);
    }
    return bytes;
}

/* {"ID": {"logprob": …, "rank": …, "decoded_token": …}, …} */
static uint64_t prompt_logprobs_bytes(const struct api_prompt_logprobs *logprobs)
{
    enum { AROUND = 64 };
    uint64_t bytes = AROUND;
    for (size_t i = 0; logprobs->tokens && i < logprobs->n; i++) {
        const ey_token_logprobs *at = &logprobs->tokens[i];
        bytes += 2 * AROUND + logprob_bytes(&at->chosen);
        for (size_t k = 0; k < at->n_top; k++)
            bytes += AROUND + logprob_bytes(&at->top[k]);
    }
    return bytes;
}

uint64_t api_choice_bytes(const struct api_choice *choice)
{
    enum { AROUND = 512, NUMBER = 17 };
    uint64_t bytes = AROUND + NUMBER * choice->pooled.n_vector +
                     api_json_text_bytes(choice->text, choice->n_text) +
                     api_json_text_bytes(choice->thinking, choice->n_thinking) +
                     api_logprobs_bytes(&choice->logprobs) +
                     prompt_logprobs_bytes(&choice->prompt_logprobs);
    for (size_t i = 0; i < choice->n_calls; i++) {
        const struct api_tool_call *call = &choice->calls[i];
        bytes += AROUND + api_json_text_bytes(call->name, strlen(call->name)) +
                 api_json_text_bytes(call->arguments, call->n_arguments);
    }
    return bytes;
}

bool api_text_is_white(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n && text[i] && strchr(" \t\r\n", text[i]))
        i++;
    return i == n;
}

void api_write_logprob(struct json_writer *w, float logprob)
{
    json_write_digits(w, logprob <= -9999 ? -9999.0 : (double)logprob, 9);
}

void api_add_repetition(struct json_writer *w, const ey_repetition *repetition)
{
    if (!repetition->copies) return;
    json_write_key(w, "repetition");
    json_open_object(w);
    json_add_int(w, "pattern_tokens", repetition->pattern_tokens);
    json_add_int(w, "copies", repetition->copies);
    json_close_object(w);
}

void api_add_token_logprob(struct json_writer *w, const ey_logprob *candidate)
{
    json_add_string(w, "token", candidate->token);
    json_write_key(w, "logprob");
    api_write_logprob(w, candidate->logprob);
    json_write_key(w, "bytes");
    json_open_array(w);
    for (size_t i = 0; i < candidate->n_bytes; i++)
        json_write_int(w, (unsigned char)candidate->bytes[i]);
    json_close_array(w);
}

void api_write_answer_token(struct json_writer *w, const ey_token_logprobs *at, bool lists_none)
{
    json_open_object(w);
    api_add_token_logprob(w, &at->chosen);
    if (at->n_top || lists_none) {
        json_write_key(w, "top_logprobs");
        json_open_array(w);
        for (size_t k = 0; k < at->n_top; k++) {
            json_open_object(w);
            api_add_token_logprob(w, &at->top[k]);
            json_close_object(w);
        }
        json_close_array(w);
    }
    json_close_object(w);
}
