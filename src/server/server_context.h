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
    ey_grammar_cache *grammars;        /* of earlier requests */
    struct responses_store *responses; /* the last ones; api/openai_responses */
    struct model_cards *cards;         /* api/common/model_card.h */
    ey_budget *budget; /* host bytes of bodies and images in flight; media_policy.budget too */
    struct http_server *http_server; /* the connections */
    long long started;               /* time of day, seconds */
    bool had_terminal;               /* at the start */
    bool out_of_descriptors;         /* it was said */
    bool watchdog;                   /* systemd expects signs of life */
};

/* An engine that this exchange may use until it releases it. */
struct lease {
    ey_engine *engine; /* NULL: none is */
    size_t model;
    bool waited; /* for it to be loaded */
};

/* Leases a model's engine to this exchange; release it (a stream does so in its close()). Waits
 * while the model is loading, for as long as the client waits; if the model had to be loaded for
 * this, a header of the reply says how long that took. */
bool server_acquire_engine(struct server *server, size_t model, struct exchange *x,
                           struct lease *out, ey_err *e);
void server_release_engine(struct server *server, struct lease *lease);

/* Which model a request means: by one of its names, its path, or the last part of that, also with
 * ":latest" behind it, or by a short name of its repository (short_names.h); "": the first. False:
 * none. */
bool server_find_model(const struct server *server, const char *name, size_t *model);
/* "The model `x` does not exist. …", with those that are there. */
void server_unknown_model_message(const struct server *server, const char *asked, char *out,
                                  size_t size);
/* All names that are served, each between `quote`s. */
void server_list_names(const struct server *server, const char *quote, char *out, size_t size);
/* What replies call a model. */
const char *server_model_name(const struct server *server, size_t model);

/* The server shuts down: it rejects new work, what runs may finish. */
bool server_is_draining(const struct server *server);
/* The time for that is over: answers end now, streams with a last error event; where no byte was
 * sent yet, with 503. */
bool server_is_ending(const struct server *server);

#endif
