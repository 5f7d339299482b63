/* SPDX-License-Identifier: Apache-2.0 */
/* Measures how fast several answers are decoded at the same time, after prompts of a given length.
 */
#ifndef EY_CLI_BENCH_STREAMS_H
#define EY_CLI_BENCH_STREAMS_H

#include "eyelet.h"

enum { BENCH_STREAMS = 256 };

struct bench_streams_rate {
    double seconds;         /* the time in which all streams decoded */
    double tokens;          /* tokens of all streams in that time */
    double prefill_seconds; /* of the first prompt */
};

/* Answers n prompts of `depth` arbitrary tokens with `tokens` tokens each, greedily and ignoring
 * the end token. */
bool bench_streams(ey_engine *engine, int n, int depth, int tokens, struct bench_streams_rate *out,
                   ey_err *e);

#endif
