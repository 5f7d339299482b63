/* SPDX-License-Identifier: Apache-2.0 */
/* A model that a server has loaded, asked as one of our own: eyelet's server, or another that
 * speaks the OpenAI API. */
#ifndef EY_CLIENT_REMOTE_H
#define EY_CLIENT_REMOTE_H

#include "base/err.h"
#include "eyelet/request.h"

struct remote;

struct remote_options {
    const char *url; /* http://host:port, with or without /v1 at its end; http:// may be left out */
    const char *key; /* NULL: none */
    const char *model; /* as the server calls it; NULL: its first */
};

/* Asks the server for its models. Keeps no pointer into `options`. */
bool remote_open(struct remote **remote, const struct remote_options *options, ey_err *e);
void remote_close(struct remote **remote);

const char *remote_model(const struct remote *remote);
int remote_max_model_len(const struct remote *remote); /* 0: the server does not say */

/* What the text of an answer must be, as sent to the server; at most one of them is set. */
struct remote_response_format {
    const char *schema; /* JSON */
    const char *regex;
    const char *const *choices;
    size_t n_choices;
};

/* ey_ask, with these differences: `form` (NULL: the answer is free) stands in for request->grammar,
 * and not every server heeds it; numbers of request->sampling that are NaN, and top_k < 0, are left
 * to the server; its only event besides the text are the phases SENDING and WAITING;
 * prefill_seconds is the time to the first token, queue and vision encoder included; an answer that
 * was cancelled has no usage. Messages hold text and images only, and no special tokens;
 * ignore_eos, fresh, logit_bias and ids are not sent. ey_answer_free frees the answer. */
bool remote_ask(struct remote *remote, const ey_request *request,
                const struct remote_response_format *format, ey_answer *answer, ey_err *e);

#endif
