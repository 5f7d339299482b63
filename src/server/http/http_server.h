/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP side of the server: libmicrohttpd with a thread for each connection, request checks and
 * routes. */
#ifndef EY_SERVER_HTTP_SERVER_H
#define EY_SERVER_HTTP_SERVER_H

#include "server/http/connections.h"
#include "server/server_context.h"
#include "server/http/listen.h"

struct http_server;

/* Starts answering what comes to the sockets, which it then owns; that of Ollama's port may have no
 * descriptor (-1). server->http_server is set, also after an error. */
bool http_server_open(struct server *server, struct server_socket *listener,
                      struct server_socket *ollama, ey_err *e);
/* Waits for the threads of all connections; cut or finish them before. */
void http_server_close(struct http_server **http_server);
struct connections *http_server_connections(struct http_server *http_server);

/* Reads the files of keys and certificate again; open connections keep theirs. False: one of them
 * stays as it was. */
bool http_server_reload(struct http_server *http_server, ey_err *e);

/* New connections wait at the socket until they are let in again. */
void http_server_pause(struct http_server *http_server);
bool http_server_is_paused(const struct http_server *http_server);
/* It may stay paused: the library needs descriptors for that itself. */
void http_server_resume(struct http_server *http_server);

/* No new work is taken in from now on (server_is_draining). */
void http_server_drain(struct http_server *http_server);
/* Answers are to end now (server_is_ending). */
void http_server_end_streams(struct http_server *http_server);

#endif
