/* SPDX-License-Identifier: Apache-2.0 */
/* Handles one exchange from its JSON to its answers, for all routes that generate. */
#ifndef EY_SERVER_COMPLETION_H
#define EY_SERVER_COMPLETION_H

#include "server/api/common/completion_choices.h"
#include "server/api/common/api_dialect.h"

struct echo_text {
    char *bytes;
    size_t n;
};

struct completion {
    uint64_t value_bytes; /* memory of the parsed request, without its texts */
    uint64_t kept_bytes;  /* upper bound of the texts that are kept until the end of the answer */
    struct server *server;
    struct lease lease;
    ey_engine *engine; /* owned by the lease */
    struct api_request request;
    struct completion_choices choices;
    struct api_reply reply;
    struct echo_text *echo; /* [n_echo] prompts to return with the answer */
    size_t n_echo;
    bool hung_up; /* the client disconnected early */
    struct api_error error;
};

/* The media policy of this exchange: allowed sources, and the budget of its images. */
struct media_policy media_policy_for(const struct server *server, struct exchange *x);
/* Parses the request's JSON and the model's name. On an error, answers the exchange and returns
 * NULL. */
struct completion *completion_parse(struct server *server, struct exchange *x,
                                    const struct api_dialect *dialect);
/* Finds the requested model without loading it. Fails with a->error if there is none. */
bool completion_find_model(struct completion *a, size_t *model);
/* Leases the model's engine, loading it if necessary. Fails with a->error. */
bool completion_lease(struct completion *a, struct exchange *x);
/* Leases the model's engine and reads the other fields. On an error, answers the exchange, frees
 * `a` and returns false. */
bool completion_read(struct completion *a, struct exchange *x);
/* completion_parse() and completion_read(). */
struct completion *completion_open(struct server *server, struct exchange *x,
                                   const struct api_dialect *dialect);
void completion_close(struct completion *a);
/* Answers the exchange with a->error. */
void completion_fail(struct completion *a, struct exchange *x);
/* Prepares the prompt for inspection; the caller frees it. Fails with a->error. */
bool completion_prepare_prompt(struct completion *a, ey_prompt **prompt);
/* Answers the exchange with {"input_tokens": N}, preceded by "object" unless that is NULL. Fails
 * with a->error. */
bool completion_reply_input_tokens(struct completion *a, struct exchange *x, const char *object);
/* Computes and sends the answers, whole or as a stream. Takes ownership of `a`. */
void completion_answer(struct completion *a, struct exchange *x);
/* Handles the exchange from request to answer. */
void completion_run(struct server *server, struct exchange *x, const struct api_dialect *dialect);

/* ---- shared by completion.c and completion_stream.c ---- */

/* How an answer ended, in the API's terms. */
struct api_end completion_finish(const struct completion *a, const ey_answer *answer, int n_calls);
/* The prompt to return before the text of choice `index`; empty without `echo`. */
struct echo_text completion_echo(const struct completion *a, int index);
/* Reduces the alternatives of a prompt's tokens[n] to the number requested for answers. */
void completion_trim_alternatives(const struct completion *a, ey_token_logprobs *tokens, size_t n);
/* Fails with a->error if the server is shutting down and the drain time is over. */
bool completion_may_continue(struct completion *a);
/* Answers the exchange with a stream. The choices are started already; the stream takes ownership
 * of `a`. */
void completion_stream(struct completion *a, struct exchange *x);

#endif
