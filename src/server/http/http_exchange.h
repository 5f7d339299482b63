/* SPDX-License-Identifier: Apache-2.0 */
/* An HTTP exchange as seen by a route: the request, which http_server.c has checked, and its reply.
 *
 * A route runs on its connection's thread once the body is complete. It answers exactly once, with
 * exchange_reply, exchange_fail or exchange_stream. */
#ifndef EY_SERVER_HTTP_EXCHANGE_H
#define EY_SERVER_HTTP_EXCHANGE_H

#include <sys/types.h>

#include "base/buf.h"
#include "eyelet/budget.h"
#include "server/http/error_form.h"

struct server;
struct exchange;

typedef void route_fn(struct server *server, struct exchange *x);

const char *exchange_body(const struct exchange *x, size_t *n); /* NUL-terminated */
/* Frees the body. A route calls this after parsing, before it waits for long. */
void exchange_drop_body(struct exchange *x);
const char *exchange_query(struct exchange *x, const char *name); /* NULL if absent */
/* The rest of the path of a ROUTE_ANY_END route (/v1/models/…), decoded. */
const char *exchange_argument(const struct exchange *x);
const char *exchange_request_header(struct exchange *x, const char *name);
/* When the request line arrived; seconds_now(). */
double exchange_started(const struct exchange *x);
/* Whether the client has disconnected. Cheap; poll it every 100 ms or so. */
bool exchange_hung_up(struct exchange *x);
/* Whether nobody needs the reply any more: the client has disconnected or the server is ending. */
bool exchange_abandoned(struct exchange *x);
/* Reserves n bytes of the server's budget until the exchange ends. If that fails, replies with an
 * error and returns false. */
bool exchange_charge(struct exchange *x, uint64_t n);
/* Gives the bytes reserved by exchange_charge back to the budget, except `kept`. */
void exchange_uncharge(struct exchange *x, uint64_t kept);
/* The client's part of the server's budget, from which the exchange takes all its memory. */
ey_budget *exchange_budget(const struct exchange *x);
/* Bytes of the budget that the exchange holds, body included. */
uint64_t exchange_budget_held(const struct exchange *x);

void exchange_add_header(struct exchange *x, const char *name, const char *value);
/* Replies with `body`, whose contents it takes. */
void exchange_reply(struct exchange *x, int status, const char *content_type, struct buf *body);
/* Replies with an error in the path's dialect (route_error_form). `param` may be NULL; a NULL
 * `type` follows from the status. */
void exchange_fail(struct exchange *x, int status, const char *type, const char *param,
                   const char *fmt, ...) __attribute__((format(printf, 5, 6)));

void exchange_send_error(struct exchange *x, const struct api_error *error);

/* A streamed body. pull() runs on the connection's thread when the client can take more: it waits
 * for data (100 ms at a time, checking exchange_hung_up in between) and returns the number of bytes
 * written (at least one), or -1 at the end, or -2 to cut the connection. close() is called once,
 * also if the client has left. */
struct response_stream {
    ssize_t (*pull)(void *state, struct exchange *x, char *out, size_t size);
    void (*close)(void *state);
    void *state;
};
void exchange_stream(struct exchange *x, int status, const char *content_type,
                     struct response_stream stream);

#endif
