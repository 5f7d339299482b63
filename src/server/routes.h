/* SPDX-License-Identifier: Apache-2.0 */
/* Routing: path and method to handler. */
#ifndef EY_SERVER_ROUTES_H
#define EY_SERVER_ROUTES_H

#include "server/http/http_exchange.h"

struct route {
    const char *method, *path;
    route_fn *run;
    enum {
        ROUTE_OPEN = 1,     /* needs no key */
        ROUTE_ANY_END = 2,  /* the rest of the path is an argument */
        ROUTE_ANY_TYPE = 8, /* accepts any Content-Type, except from web pages */
        ROUTE_PROBE = 4,    /* a health probe: not logged on success, served also when the server is
                              full */
        ROUTE_ZSTD = 16,    /* accepts bodies with Content-Encoding: zstd */
    } flags;
};

/* Returns the route, or NULL. *allow lists all methods of the path, "" if there is no such path.
 * HEAD counts as GET. */
const struct route *route_find(const char *method, const char *path, const char **allow);

/* Returns route i of the table, or NULL past the last one. */
const struct route *route_at(size_t i);

/* Writes what to use instead of an unknown path, as the end of a sentence. */
void route_hint(const char *path, char out[160]);
/* Returns the writer of errors in the path's dialect. Refusals before routing use it too. */
error_form_fn *route_error_form(const char *path);

#endif
