/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP exchange as a route sees it: the request, which http_server.c has checked, and the one
 * reply to it.
 *
 * A route runs on its connection's own thread, when the whole body is there. It answers exactly
 * once: with exchange_reply, exchange_fail or exchange_stream. */
#ifndef EY_SERVER_HTTP_EXCHANGE_H
#define EY_SERVER_HTTP_EXCHANGE_H

#include <sys/types.h>

#include "base/buf.h"
#include "eyelet/budget.h"
#include "server/http/error_form.h"

struct server;
struct exchange;

typedef void route_fn(struct server *server, struct exchange *x);

const char *exchange_body(const struct exchange *x, size_t *n); /* NUL behind it */
/* Releases the body's memory; a route that has parsed it calls this before it waits for long. */
void exchange_drop_body(struct exchange *x);
const char *exchange_query(struct exchange *x, const char *name); /* NULL: not there */
/* What follows the path of a route that takes any end (/v1/models/…), without escapes. */
const char *exchange_argument(const struct exchange *x);
const char *exchange_request_header(struct exchange *x, const char *name);
/* When its headers had come; seconds_now(). */
double exchange_started(const struct exchange *x);
/* The client has closed its end. Cheap; poll it every 100 ms or so. */
bool exchange_hung_up(struct exchange *x);
/* That, or the server ends: nobody needs the reply any more. */
bool exchange_abandoned(struct exchange *x);
/* Takes n bytes of the server's budget for this exchange, until its end. False: it has been
 * answered, since all is taken, or n is more than there is. */
bool exchange_charge(struct exchange *x, uint64_t n);
/* Gives them back but so many. */
void exchange_uncharge(struct exchange *x, uint64_t kept);
/* The client's part of the server's budget, which all that the exchange needs comes from. */
ey_budget *exchange_budget(const struct exchange *x);
/* What it holds of that with its body, in bytes. */
uint64_t exchange_budget_held(const struct exchange *x);

void exchange_add_header(struct exchange *x, const char *name, const char *value);
/* Takes the body's contents. */
void exchange_reply(struct exchange *x, int status, const char *content_type, struct buf *body);
/* In the form of the path's dialect (route_error_form). param NULL: null. `type` NULL: by the
 * status. */
void exchange_fail(struct exchange *x, int status, const char *type, const char *param,
                   const char *fmt, ...) __attribute__((format(printf, 5, 6)));

void exchange_send_error(struct exchange *x, const struct api_error *error);

/* A body that is made as it is sent. pull() runs on the connection's thread each time the client
 * can take more: it waits for what comes (100 ms at a time, asking exchange_hung_up between) and
 * returns how many bytes it wrote, at least one, or -1 at the end, or -2 where the connection is to
 * be cut. close() is called once, also when the client left. */
struct response_stream {
    ssize_t (*pull)(void *state, struct exchange *x, char *out, size_t size);
    void (*close)(void *state);
    void *state;
};
void exchange_stream(struct exchange *x, int status, const char *content_type,
                     struct response_stream stream);

#endif
