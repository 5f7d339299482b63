/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP side of the server: libmicrohttpd with a thread for each connection, around the door and
 * the routes. */
#ifndef EY_SERVER_WEB_H
#define EY_SERVER_WEB_H

#include "server/connections.h"
#include "server/context.h"
#include "server/listen.h"

struct web;

/* Starts answering what comes to the socket, which is the web's from then on, also after an error.
 * server->web is set. */
bool web_open(struct server *server, struct listener *listener, ey_err *e);
/* Waits for the threads of all connections; cut or finish them before. */
void web_close(struct web **web);
struct connections *web_connections(struct web *web);

/* No new work is taken in from now on (server_draining). */
void web_drain(struct web *web);
/* Answers are to end now (server_ending). */
void web_end(struct web *web);

#endif
