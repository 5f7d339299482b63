/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the server-sent events of an answer as they arrive, and converts them into ey_events
 * and an ey_answer. */
#ifndef EY_CLIENT_REPLY_STREAM_H
#define EY_CLIENT_REPLY_STREAM_H

#include "base/buf.h"
#include "eyelet/request.h"

struct reply_stream {
    const ey_request *request;
    ey_answer *answer; /* answer->owner is an arena */
    struct buf line, text, thought;
    size_t logprob_capacity;        /* of answer->logprobs */
    double started, first_token_at; /* seconds_now(); first_token_at is 0 before any text */
    bool finished;                  /* the finish reason is known */
    bool done;                      /* the stream has ended */
    bool cancelled;                 /* by an event's callback */
};

/* Starts the clock and an empty answer. Borrows `request` and `answer`; the caller frees the answer
 * with ey_answer_free(), also after an error. */
bool reply_stream_open(struct reply_stream *r, const ey_request *request, ey_answer *answer,
                       ey_err *e);
void reply_stream_close(struct reply_stream *r);
/* Parses the next bytes, which may be split anywhere. Fails if the reply is malformed or is the
 * server's own error. */
bool reply_stream_take(struct reply_stream *r, const char *bytes, size_t n, ey_err *e);
/* Reports progress to the request's callback. Returns false if that cancels the request. */
bool reply_stream_tell(struct reply_stream *r, ey_phase phase, uint64_t done, uint64_t total);
/* Completes the answer after the end of the stream. */
bool reply_stream_finish(struct reply_stream *r, ey_err *e);

#endif
