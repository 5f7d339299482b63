/* SPDX-License-Identifier: Apache-2.0 */
/* GET /metrics: histograms fed by the routes, and the engines' counters. Thread-safe. */
#ifndef EY_SERVER_METRICS_H
#define EY_SERVER_METRICS_H

#include "base/buf.h"
#include "eyelet/request.h"
#include "server/model_manager/model_manager.h"

struct metrics;

bool metrics_open(struct metrics **metrics, size_t n_models, ey_err *e);
void metrics_close(struct metrics **metrics);

/* Measures one answer; a request for n answers has n watches. */
struct metrics_watch {
    struct metrics *metrics;
    size_t model;
    double started, last; /* arrival of the request and of its latest token; seconds_now() */
    int tokens;
};

/* `started` is the value of exchange_started(). */
struct metrics_watch metrics_watch_start(struct metrics *metrics, size_t model, double started);
/* Records that the answer has n_tokens now, for the time to first token and between tokens. Call it
 * for each event with text. */
void metrics_watch_tokens(struct metrics_watch *watch, int n_tokens);
/* Records a finished answer, unless it failed (NULL) or the client left early (`hung_up`). */
void metrics_watch_end(struct metrics_watch *watch, const ey_answer *answer, bool hung_up);

/* Counts a reply by its status. */
void metrics_count_reply(struct metrics *metrics, int status);

/* Sources of the metrics. */
struct metrics_sources {
    const char *model_name[SERVER_MAX_MODELS];
    struct model_manager *model_manager;
    ey_budget *budget;
    int connections;
};
/* Writes all metrics as Prometheus text. Each has a line per model; metrics of the server itself
 * have the first model's name. Returns false if out of memory. */
bool metrics_write(struct metrics *metrics, const struct metrics_sources *sources, struct buf *out);

#endif
