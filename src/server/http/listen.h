/* SPDX-License-Identifier: Apache-2.0 */
/* The socket that the server listens to. */
#ifndef EY_SERVER_LISTEN_H
#define EY_SERVER_LISTEN_H

#include <netinet/in.h>

#include "base/err.h"

struct server_socket {
    int fd, port;
    bool v6;
    char address[INET6_ADDRSTRLEN]; /* that it is bound to */
    bool loopback;                  /* only this machine reaches it */
};

/* Binds to the first address that `host` has, and any free port where port is 0; errors name the
 * option that said so. */
bool server_socket_open(struct server_socket *listener, const char *option, const char *host,
                        int port, ey_err *e);
void server_socket_close(struct server_socket *listener);

#endif
