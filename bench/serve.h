/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of bench_serve share. */
#ifndef EY_BENCH_SERVE_H
#define EY_BENCH_SERVE_H

#include "client/chat_client.h"
#include "client/samples.h"

enum { SERVE_MAX_STREAMS = 256, SERVE_MAX_COUNTS = 16 };

struct serve_settings {
    const char *url;    /* of a server that runs; NULL: one is started */
    const char *server; /* the program to start */
    const char
        *model;       /* directory: for the server that is started, and for the engine next to it */
    const char *name; /* what requests call the model; NULL: nothing */
    char **more;      /* [n_more] options of the server that is started */
    int n_more;
    int streams[SERVE_MAX_COUNTS];
    int n_counts;
    int rounds, tokens;        /* of each measurement, of each answer */
    int answers;               /* of each client in a round, one after the other */
    int width, height;         /* of the images of streams */
    int big_width, big_height; /* of the one that may make others wait */
    int stall_tokens;          /* of the answer that may have to wait */
    int cost_requests;
    int dialect_rounds; /* 0: dialects are not compared */
    double patience;    /* seconds to wait for anything */
};

struct serve {
    const struct serve_settings *settings;
    struct wire_target to;
    pid_t server;   /* 0: not ours */
    uint64_t asked; /* requests so far: each says something else, so that no cache answers */
};

/* One answer that is streamed. */
struct stream {
    struct wire wire;
    struct buf request;
    struct chat_answer answer;
    double sent, first, last; /* seconds_now(); first 0: no text came yet */
    struct samples gaps;      /* from one text to the next */
};
struct stream stream_make(void);
void stream_free(struct stream *s);
/* Writes a request in words that were not used before, about an image of this size if there is one.
 */
bool stream_write(struct serve *b, struct stream *s, int width, int height, int max_tokens,
                  ey_err *e);
/* Sends what was written. */
bool stream_send(struct serve *b, struct stream *s, ey_err *e);
/* Both. */
bool stream_start(struct serve *b, struct stream *s, int width, int height, int max_tokens,
                  ey_err *e);
bool stream_is_over(const struct stream *s);
/* Waits for what comes to any of them, at most 100 ms. */
void streams_wait(struct stream **all, size_t n);
bool stream_check(const struct stream *s, ey_err *e); /* it has its answer */
int64_t stream_tokens(const struct stream *s);

/* Time to the first token, from token to token, tokens a second: so many streams at once, with and
 * without an image. */
bool measure_streams(struct serve *b, ey_err *e);
/* How long others' tokens wait for a big image. */
bool measure_stall(struct serve *b, ey_err *e);
/* What the server adds to the engine's own time for one token. */
bool measure_cost(struct serve *b, ey_err *e);
/* What each dialect adds to Chat. */
bool measure_dialects(struct serve *b, ey_err *e);

#endif
