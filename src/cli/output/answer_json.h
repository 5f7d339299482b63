/* SPDX-License-Identifier: Apache-2.0 */
/* Answers as JSON, in the shapes of the API's usage object, and log-probabilities as text. */
#ifndef EY_CLI_ANSWER_JSON_H
#define EY_CLI_ANSWER_JSON_H

#include "base/text/json_writer.h"
#include "eyelet/request.h"

/* {"prompt_tokens", "completion_tokens", "prompt_tokens_details", "images"} */
void answer_write_usage(struct json_writer *w, const ey_answer *answer);
/* {"load_s", "vision_s", "prefill_s", "decode_s"} */
void answer_write_timings(struct json_writer *w, const ey_answer *answer, double load_seconds);
/* "usage": …, "timings": …: members of the object that is open */
void answer_add_usage_and_timings(struct json_writer *w, const ey_answer *answer,
                                  double load_seconds);
/* [{"token", "logprob", "top": [{"token", "logprob"}]}], or null if none were requested */
void answer_write_logprobs(struct json_writer *w, const ey_answer *answer, bool wanted);
/* Prints a line for each token to standard error, so that standard output has the answer only. */
void answer_print_logprobs(const ey_answer *answer);

#endif
