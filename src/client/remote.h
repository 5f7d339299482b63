/* SPDX-License-Identifier: Apache-2.0 */
/* Sends requests to a model on a server as if the model were loaded here. The server is eyelet or
 * another one with the OpenAI API. */
#ifndef EY_CLIENT_REMOTE_H
#define EY_CLIENT_REMOTE_H

#include "base/err.h"
#include "eyelet/pooling.h"
#include "eyelet/request.h"

struct remote;

struct remote_options {
    const char *url; /* http://host:port, with or without /v1 at its end; http:// may be left out */
    const char *key; /* API key, or NULL */
    const char *model; /* its id in the server's list, or NULL for the first model */
    /* Sent with every request if not NULL. Only eyelet's server knows this setting. */
    const ey_loop_guard *loop_guard;
};

/* Connects to the server and reads its list of models. Keeps no pointer into `options`. */
bool remote_open(struct remote **remote, const struct remote_options *options, ey_err *e);
void remote_close(struct remote **remote);

const char *remote_model(const struct remote *remote);
int remote_max_model_len(const struct remote *remote); /* 0 if the server does not report it */

/* The format of an answer. At most one of schema, regex and choices is set. */
struct remote_response_format {
    const char *schema; /* JSON */
    const char *regex;
    const char *const *choices;
    size_t n_choices;
};

/* Answers a request like ey_ask, with these differences. `format` replaces request->grammar; NULL
 * leaves the answer unconstrained, and not every server honors a format. NaN in request->sampling,
 * and top_k < 0, leave the value to the server. Besides text and thought, the only events are the
 * phases SENDING, WAITING and DECODE. prefill_seconds is the time to the first token, including
 * queue and vision encoder. A cancelled answer has no usage. Of the request, only messages,
 * max_tokens, top_logprobs, sampling, stop and thinking are sent. The caller frees the answer with
 * ey_answer_free. */
bool remote_ask(struct remote *remote, const ey_request *request,
                const struct remote_response_format *format, ey_answer *answer, ey_err *e);

/* A vector that a server's model made. */
struct remote_vector {
    float *number; /* [n]; the caller frees it */
    size_t n;
    int prompt_tokens; /* 0 if the server does not report it */
};
/* Requests the vector of at most one image and one text. The vector has `dimensions` numbers, or
 * the model's own length if that is 0. Every server of the OpenAI API accepts a text alone, but
 * images and instructions are extensions. `go_on` is polled and cancels by returning false. The
 * caller frees out->number, also after an error. */
bool remote_embed(struct remote *remote, const ey_pooling_input *input, int dimensions,
                  bool (*go_on)(void), struct remote_vector *out, ey_err *e);

#endif
