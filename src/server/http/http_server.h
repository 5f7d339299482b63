/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server: libmicrohttpd with a thread per connection, request checks and routes. */
#ifndef EY_SERVER_HTTP_SERVER_H
#define EY_SERVER_HTTP_SERVER_H

#include "server/http/connections.h"
#include "server/server_context.h"
#include "server/http/listen.h"

struct http_server;

/* Starts serving on the sockets, which it then owns; the descriptor of Ollama's may be -1. Sets
 * server->http_server, also on failure. */
bool http_server_open(struct server *server, struct server_socket *listener,
                      struct server_socket *ollama, ey_err *e);
/* Waits for all connection threads; connections must have been cut or finished before. */
void http_server_close(struct http_server **http_server);
struct connections *http_server_connections(struct http_server *http_server);

/* Rereads key and certificate files; open connections keep their certificate. Returns false if one
 * of them could not be used; the old one then stays in use. */
bool http_server_reload(struct http_server *http_server, ey_err *e);

/* Stops accepting; new connections wait in the socket's backlog. */
void http_server_pause(struct http_server *http_server);
bool http_server_is_paused(const struct http_server *http_server);
/* Resumes accepting with the key and certificate in use. Fails if no descriptor is left. */
bool http_server_resume(struct http_server *http_server, ey_err *e);

/* Rejects new work from now on (server_is_draining). */
void http_server_drain(struct http_server *http_server);
/* Makes running answers end now (server_is_ending). */
void http_server_end_streams(struct http_server *http_server);

#endif
