/* SPDX-License-Identifier: Apache-2.0 */
/* A listening socket. */
#ifndef EY_SERVER_LISTEN_H
#define EY_SERVER_LISTEN_H

#include <netinet/in.h>

#include "base/err.h"

struct server_socket {
    int fd, port;
    bool v6;
    char address[INET6_ADDRSTRLEN]; /* of the bound socket */
    bool loopback;                  /* reachable from this machine only */
};

/* Listens on the first address of `host`, on any free port if `port` is 0. Errors name `option`. */
bool server_socket_open(struct server_socket *listener, const char *option, const char *host,
                        int port, ey_err *e);
void server_socket_close(struct server_socket *listener);

#endif
