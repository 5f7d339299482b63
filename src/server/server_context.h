/* SPDX-License-Identifier: Apache-2.0 */
/* The running server, as its routes see it. */
#ifndef EY_SERVER_SERVER_CONTEXT_H
#define EY_SERVER_SERVER_CONTEXT_H

#include "server/http/http_exchange.h"
#include "server/model_manager/model_manager.h"
#include "server/metrics.h"

struct server {
    const struct server_options *options;
    struct model_manager *model_manager;
    struct metrics *metrics;
    ey_grammar_cache *grammars; /* of earlier requests */
    ey_budget *budget; /* host bytes of bodies and pictures in flight; also what media_policy.budget
                          is to be */
    struct http_server *http_server; /* the connections (web.h) */
    long long started;               /* time of day, seconds */
    bool watchdog;                   /* by a supervisor that wants to hear of progress */
};

/* An engine that was borrowed. */
struct lease {
    ey_engine *engine; /* NULL: none is */
    size_t model;
    bool waited; /* for it to be loaded */
};

/* The engine of a model for this exchange, to be given back (a stream does it in its close()).
 * Waits while the model is loading, for as long as the client waits; where it had to be loaded for
 * this, the reply gets a header that says how long that took. */
bool server_acquire_engine(struct server *server, size_t model, struct exchange *x,
                           struct lease *out, ey_err *e);
void server_release_engine(struct server *server, struct lease *lease);

/* Which model a request means: by one of its names, its path, or the last part of that; "": the
 * first. False: none. */
bool server_find_model(const struct server *server, const char *name, size_t *model);
/* "The model `x` does not exist. …", with those that are there. */
void server_unknown_model_message(const struct server *server, const char *asked, char *out,
                                  size_t size);
/* What replies call a model. */
const char *server_model_name(const struct server *server, size_t model);

/* Told to stop: nothing new is taken in (the door sees to it), what runs may finish. */
bool server_is_draining(const struct server *server);
/* The time for that is over: answers end now, streams with a last error event; where no byte was
 * sent yet, with 503. */
bool server_is_ending(const struct server *server);

#endif
