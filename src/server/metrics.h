/* SPDX-License-Identifier: Apache-2.0 */
/* What GET /metrics tells: histograms that the routes feed, along with the engine's own counters.
 * Any thread may call. */
#ifndef EY_SERVER_METRICS_H
#define EY_SERVER_METRICS_H

#include "base/buf.h"
#include "eyelet/request.h"
#include "server/model_manager/model_manager.h"

struct metrics;

bool metrics_open(struct metrics **metrics, size_t n_models, ey_err *e);
void metrics_close(struct metrics **metrics);

/* One answer under way; each of n answers has its own. */
struct metrics_watch {
    struct metrics *metrics;
    size_t model;
    double started, last; /* when the request came, when its newest token did; seconds_now() */
    int tokens;
};

/* started: exchange_started(). */
struct metrics_watch metrics_watch_start(struct metrics *metrics, size_t model, double started);
/* The answer has n_tokens by now; called for each event with text, it keeps the time to the first
 * token and the gaps. */
void metrics_watch_tokens(struct metrics_watch *watch, int n_tokens);
/* The answer is over, as ey_generation_collect gave it; NULL: it failed. `hung_up`: the client left
 * before its end. */
void metrics_watch_end(struct metrics_watch *watch, const ey_answer *answer, bool hung_up);

/* A reply went out. */
void metrics_count_reply(struct metrics *metrics, int status);

/* Prometheus text of all there is: a line for each model, by its name, and what is the server's own
 * under the first one's. */
struct metrics_sources {
    const char *model_name[SERVER_MAX_MODELS];
    struct model_manager *model_manager;
    ey_budget *budget;
    int connections;
};
/* False: no memory. */
bool metrics_write(struct metrics *metrics, const struct metrics_sources *sources, struct buf *out);

#endif
