/* SPDX-License-Identifier: Apache-2.0 */
/* Answers as JSON, in the shapes of the API's usage object. Each appends a whole value. */
#ifndef EY_CLI_ANSWER_JSON_H
#define EY_CLI_ANSWER_JSON_H

#include "base/buf.h"
#include "eyelet/request.h"

/* {"prompt_tokens", "completion_tokens", "prompt_tokens_details", "images"} */
bool json_add_usage(struct buf *out, const ey_answer *answer);
/* {"load_s", "vision_s", "prefill_s", "decode_s"} */
bool json_add_timings(struct buf *out, const ey_answer *answer, double load_seconds);
/* , "usage": …, "timings": …: members of an object that has some already */
bool json_add_usage_and_timings(struct buf *out, const ey_answer *answer, double load_seconds);
/* [{"token", "logprob", "top": [{"token", "logprob"}]}], or null if none were requested */
bool json_add_logprobs(struct buf *out, const ey_answer *answer, bool wanted);
bool json_add_text(struct buf *out, const char *text);

#endif
