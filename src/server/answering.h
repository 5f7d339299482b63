/* SPDX-License-Identifier: Apache-2.0 */
/* One exchange from its JSON to its answers: what the routes that generate share. */
#ifndef EY_SERVER_ANSWERING_H
#define EY_SERVER_ANSWERING_H

#include "server/answers.h"
#include "server/reply.h"

struct text {
    char *bytes;
    size_t n;
};

struct answering {
    struct server *server;
    struct loan loan;
    ey_engine *engine; /* of the loan */
    struct api_request request;
    struct answers answers;
    struct reply reply;
    struct text *echo; /* [n_echo] the prompts, where they are to come back */
    size_t n_echo;
    bool hung_up; /* the client left before the end */
    struct api_error error;
};

/* Reads the request and borrows the engine of its model. NULL: the exchange is answered already. */
struct answering *answering_open(struct server *server, struct exchange *x, enum api_kind kind);
void answering_close(struct answering *a);
/* Answers the exchange with a->error. */
void answering_fail(struct answering *a, struct exchange *x);

/* How an answer ended, as the API says it. */
struct reply_end answering_end(const struct answering *a, const ey_answer *answer, int n_calls);
/* The prompt in front of choice `index`; empty unless it is to come back. */
struct text answering_echo(const struct answering *a, int index);
/* False with a->error: the server is told to stop, and time is up. */
bool answering_may_go_on(struct answering *a);

/* Answers the exchange by a stream that takes over `a`, whose answers have been started. */
void answer_stream(struct answering *a, struct exchange *x);

#endif
