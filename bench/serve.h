/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of bench_serve. */
#ifndef EY_BENCH_SERVE_H
#define EY_BENCH_SERVE_H

#include "client/chat_client.h"
#include "client/samples.h"

enum { SERVE_MAX_STREAMS = 256, SERVE_MAX_COUNTS = 16 };

struct serve_settings {
    const char *url;    /* of a running server; NULL: one is started */
    const char *server; /* the program to start */
    const char *model;  /* directory, for the started server and for the engine in this process */
    const char *name;   /* model of requests; NULL: none */
    char **more;        /* [n_more] options of the started server */
    int n_more;
    int streams[SERVE_MAX_COUNTS];
    int n_counts;
    int rounds, tokens;        /* number of measurements; tokens of each answer */
    int answers;               /* of each client in a round, one after the other */
    int width, height;         /* of the images of streams */
    int big_width, big_height; /* of the image that may delay others */
    int stall_tokens;          /* of the answer that may be delayed */
    int cost_requests;
    int dialect_rounds; /* 0: dialects are not compared */
    double patience;    /* seconds to wait for anything */
};

struct serve {
    const struct serve_settings *settings;
    struct wire_target to;
    pid_t server;   /* 0: not started by us */
    uint64_t asked; /* requests so far; each is worded differently, so that no cache has it */
};

/* One streamed answer. */
struct stream {
    struct wire wire;
    struct buf request;
    struct chat_answer answer;
    double sent, first, last; /* seconds_now(); first 0: no text yet */
    struct samples gaps;      /* from one text to the next */
};
struct stream stream_make(void);
void stream_free(struct stream *s);
/* Writes a request in new words, with an image of this size unless width is 0. */
bool stream_write(struct serve *b, struct stream *s, int width, int height, int max_tokens,
                  ey_err *e);
/* Sends the request that stream_write has written. */
bool stream_send(struct serve *b, struct stream *s, ey_err *e);
/* Writes and sends a request. */
bool stream_start(struct serve *b, struct stream *s, int width, int height, int max_tokens,
                  ey_err *e);
bool stream_is_over(const struct stream *s);
/* Waits for data of any stream, at most 100 ms. */
void streams_wait(struct stream **all, size_t n);
bool stream_check(const struct stream *s, ey_err *e); /* whether the answer is complete */
int64_t stream_tokens(const struct stream *s);

/* Measures the time to the first token, the time between tokens, and tokens a second, for each
 * number of concurrent streams, with and without an image. */
bool measure_streams(struct serve *b, ey_err *e);
/* Measures how long a large image delays the tokens of others. */
bool measure_stall(struct serve *b, ey_err *e);
/* Measures the time that the server adds to the engine's for one token. */
bool measure_cost(struct serve *b, ey_err *e);
/* Measures the time that each dialect adds to Chat's. */
bool measure_dialects(struct serve *b, ey_err *e);

#endif
