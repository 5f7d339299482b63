/* SPDX-License-Identifier: Apache-2.0 */
/* One exchange from its JSON to its answers: what the routes that generate share. */
#ifndef EY_SERVER_API_COMPLETION_H
#define EY_SERVER_API_COMPLETION_H

#include "server/api/common/completion_choices.h"
#include "server/api/openai_chat/api_reply.h"

struct echo_text {
    char *bytes;
    size_t n;
};

struct completion {
    uint64_t value_bytes; /* of the parsed request, without its texts */
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

/* Reads the request and leases the engine of its model. NULL: the exchange is answered already. */
struct completion *completion_open(struct server *server, struct exchange *x, enum api_kind kind);
void completion_close(struct completion *a);
/* Answers the exchange with a->error. */
void completion_fail(struct completion *a, struct exchange *x);

/* How an answer ended, as the API says it. */
struct reply_end completion_finish(const struct completion *a, const ey_answer *answer,
                                   int n_calls);
/* The prompt in front of choice `index`; empty unless it is to come back. */
struct echo_text completion_echo(const struct completion *a, int index);
/* False with a->error: the server is shutting down and time is up. */
bool completion_may_continue(struct completion *a);

/* Answers the exchange by a stream that takes over `a`, whose answers have been started. */
void completion_stream(struct completion *a, struct exchange *x);

#endif
