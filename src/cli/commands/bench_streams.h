/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding of several answers at once, at a given depth of context. */
#ifndef EY_CLI_BENCH_STREAMS_H
#define EY_CLI_BENCH_STREAMS_H

#include "eyelet.h"

enum { BENCH_STREAMS = 256 };

struct bench_streams_rate {
    double seconds;         /* while all of them answered */
    double tokens;          /* of all, in that time */
    double prefill_seconds; /* of the first prompt */
};

/* n prompts of `depth` made-up tokens, answered with `tokens` tokens each, greedily, the end token
 * ignored. */
bool bench_streams(ey_engine *engine, int n, int depth, int tokens, struct bench_streams_rate *out,
                   ey_err *e);

#endif
