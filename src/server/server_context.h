/* SPDX-License-Identifier: Apache-2.0 */
/* The running server, as seen by routes. */
#ifndef EY_SERVER_SERVER_CONTEXT_H
#define EY_SERVER_SERVER_CONTEXT_H

#include "server/http/http_exchange.h"
#include "server/model_manager/model_manager.h"
#include "server/metrics.h"

struct server {
    const struct server_options *options;
    struct model_manager *model_manager;
    struct metrics *metrics;
    ey_grammar_cache *grammars;        /* compiled grammars of earlier requests */
    struct responses_store *responses; /* stored responses (api/openai_responses) */
    struct model_cards *cards;         /* api/common/model_card.h */
    ey_budget *budget; /* host memory of bodies and images in flight; also media_policy.budget */
    struct http_server *http_server; /* the connections */
    long long started;               /* time of day, seconds */
    bool had_terminal;               /* when it started */
    bool out_of_descriptors;         /* at some time so far, which was logged */
    bool cannot_resume;              /* at the last attempt, which was logged */
    bool watchdog;                   /* systemd expects watchdog pings */
};

/* A leased engine, in use by an exchange until it is released. */
struct lease {
    ey_engine *engine; /* NULL if none is leased */
    size_t model;
    bool waited; /* whether the model had to be loaded first */
};

/* Leases a model's engine; the caller releases it (a stream in its close()). Waits while the model
 * is loading and the client stays connected. If the model had to be loaded, a reply header tells
 * how long that took. */
bool server_acquire_engine(struct server *server, size_t model, struct exchange *x,
                           struct lease *out, ey_err *e);
void server_release_engine(struct server *server, struct lease *lease);

/* Finds the model that a request names: by name, path, last part of the path, each optionally with
 * ":latest", or by a short name of its repository (short_names.h). "" is the first model. */
bool server_find_model(const struct server *server, const char *name, size_t *model);
/* Writes "The model `x` does not exist. …" with the names that are served. */
void server_unknown_model_message(const struct server *server, const char *asked, char *out,
                                  size_t size);
/* Writes all names that are served, quoted by `quote`. */
void server_list_names(const struct server *server, const char *quote, char *out, size_t size);
/* Returns a model's name in replies. */
const char *server_model_name(const struct server *server, size_t model);

/* Whether the server is shutting down: it rejects new requests and lets running ones finish. */
bool server_is_draining(const struct server *server);
/* Whether the time to finish is over: answers end now, streams with an error event, others with
 * 503. */
bool server_is_ending(const struct server *server);

#endif
