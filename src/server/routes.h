/* SPDX-License-Identifier: Apache-2.0 */
/* Which path leads where. */
#ifndef EY_SERVER_ROUTES_H
#define EY_SERVER_ROUTES_H

#include "server/http/http_exchange.h"

struct route {
    const char *method, *path;
    route_fn *run;
    enum {
        ROUTE_OPEN = 1,     /* needs no key */
        ROUTE_ANY_END = 2,  /* what comes after the path is an argument */
        ROUTE_ANY_TYPE = 8, /* the body's type is not looked at, where no page sent it */
        ROUTE_PROBE = 4, /* polled by machines: not logged when all is well, served when the server
                            is full */
    } flags;
};

/* NULL: there is none; *allow then lists the methods that the path has, "" when there is no such
 * path. HEAD is GET. */
const struct route *route_find(const char *method, const char *path, const char **allow);

/* What a client that asked for a path that is not there may want instead, as a sentence's end. */
void route_hint(const char *path, char out[160]);
/* How errors of this path look, the door's refusals too. */
error_form_fn *route_error_form(const char *path);

#endif
