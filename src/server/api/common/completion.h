/* SPDX-License-Identifier: Apache-2.0 */
/* One exchange from its JSON to its answers: what the routes that generate share. */
#ifndef EY_SERVER_COMPLETION_H
#define EY_SERVER_COMPLETION_H

#include "server/api/common/completion_choices.h"
#include "server/api/common/api_dialect.h"

struct echo_text {
    char *bytes;
    size_t n;
};

struct completion {
    uint64_t value_bytes; /* of the parsed request, without its texts */
    uint64_t kept_bytes;  /* that its texts may take until the answer's end */
    struct server *server;
    struct lease lease;
    ey_engine *engine; /* of the lease */
    struct api_request request;
    struct completion_choices choices;
    struct api_reply reply;
    struct echo_text *echo; /* [n_echo] the prompts, where they are to come back */
    size_t n_echo;
    bool hung_up; /* the client left before the end */
    struct api_error error;
};

/* Where images of this exchange may come from, and the budget that they take from. */
struct media_policy media_policy_for(const struct server *server, struct exchange *x);
/* Parses the request's JSON, which tells the model. NULL: the exchange is answered already. */
struct completion *completion_parse(struct server *server, struct exchange *x,
                                    const struct api_dialect *dialect);
/* Its model, without loading it. False with a->error: there is none of that name. */
bool completion_find_model(struct completion *a, size_t *model);
/* Leases the engine of its model, loading it. False with a->error. */
bool completion_lease(struct completion *a, struct exchange *x);
/* Leases the engine of its model and reads the rest. False: the exchange is answered and `a` is
 * gone. */
bool completion_read(struct completion *a, struct exchange *x);
/* Both. */
struct completion *completion_open(struct server *server, struct exchange *x,
                                   const struct api_dialect *dialect);
void completion_close(struct completion *a);
/* Answers the exchange with a->error. */
void completion_fail(struct completion *a, struct exchange *x);
/* The prompt of what was read, to be looked at; the caller frees it. False with a->error. */
bool completion_prepare_prompt(struct completion *a, ey_prompt **prompt);
/* Answers the exchange with {"input_tokens": N}, and "object" before it unless that is NULL. False
 * with a->error. */
bool completion_reply_input_tokens(struct completion *a, struct exchange *x, const char *object);
/* Computes the answers of what was read, whole or as a stream; takes `a`. */
void completion_answer(struct completion *a, struct exchange *x);
/* All of it: what a route does. */
void completion_run(struct server *server, struct exchange *x, const struct api_dialect *dialect);

/* ---- between completion.c and completion_stream.c ---- */

/* How an answer ended, as the API says it. */
struct api_end completion_finish(const struct completion *a, const ey_answer *answer, int n_calls);
/* The prompt in front of choice `index`; empty unless it is to come back. */
struct echo_text completion_echo(const struct completion *a, int index);
/* Of a prompt's tokens[n] no more alternatives than an answer's tokens have. */
void completion_trim_alternatives(const struct completion *a, ey_token_logprobs *tokens, size_t n);
/* False with a->error: the server is shutting down and time is up. */
bool completion_may_continue(struct completion *a);
/* Answers the exchange by a stream that takes over `a`, whose answers have been started. */
void completion_stream(struct completion *a, struct exchange *x);

#endif
