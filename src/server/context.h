/* The running server, as its routes see it. */
#ifndef EY_SERVER_CONTEXT_H
#define EY_SERVER_CONTEXT_H

#include "server/exchange.h"
#include "server/keeper.h"
#include "server/metrics.h"

struct server {
    const struct server_options *options;
    struct keeper *keeper;
    struct metrics *metrics;
    ey_grammar_cache *grammars; /* of earlier requests */
    ey_budget *budget;  /* host bytes of bodies and pictures in flight; also what media_policy.budget is to be */
    struct web *web;    /* the connections (web.h) */
    long long started;  /* time of day, seconds */
    bool watched;       /* by a supervisor that wants to hear of progress */
};

/* The engine for this exchange, to be given back with keeper_return(server->keeper) (a stream does it in its close()).
 * Waits while the model is loading, for as long as the client waits; where it had to be loaded again, the reply gets a
 * header that says how long that took. NULL: *e says why; answer with exchange_fail_with. */
ey_engine *server_borrow(struct server *server, struct exchange *x, ey_err *e);

/* Whether a request may call the model so; "" always (vLLM's way). */
bool server_has_model(const struct server *server, const char *name);
/* What replies call the model. */
const char *server_model_name(const struct server *server);

/* Told to stop: nothing new is taken in (the door sees to it), what runs may finish. */
bool server_draining(const struct server *server);
/* The time for that is over: answers end now, streams with a last error event; where no byte was sent yet, with 503. */
bool server_ending(const struct server *server);

#endif
