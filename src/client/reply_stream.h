/* SPDX-License-Identifier: Apache-2.0 */
/* The server-sent events of an answer as they come, made into events of ours and an ey_answer. */
#ifndef EY_CLIENT_REPLY_STREAM_H
#define EY_CLIENT_REPLY_STREAM_H

#include "base/buf.h"
#include "eyelet/request.h"

struct reply_stream {
    const ey_request *request;
    ey_answer *answer; /* its owner is an arena */
    struct buf line, text;
    size_t logprob_capacity;        /* of answer->logprobs */
    double started, first_token_at; /* seconds_now(); first 0: no text yet */
    bool finished;                  /* the reason is known */
    bool done;                      /* nothing comes any more */
    bool cancelled;                 /* by an event's callback */
};

bool reply_stream_open(struct reply_stream *r, const ey_request *request, ey_answer *answer,
                       ey_err *e);
void reply_stream_close(struct reply_stream *r);
/* The next bytes, cut anywhere. False: a reply that makes no sense, or the server's own error. */
bool reply_stream_take(struct reply_stream *r, const char *bytes, size_t n, ey_err *e);
/* Tells the request's callback what is going on; false: it wants no more. */
bool reply_stream_tell(struct reply_stream *r, ey_phase phase, uint64_t done, uint64_t total);
/* Nothing comes any more: fills what the answer still lacks. */
bool reply_stream_finish(struct reply_stream *r, ey_err *e);

#endif
