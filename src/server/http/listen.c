/* SPDX-License-Identifier: Apache-2.0 */
/* Binds TCP sockets, with errors that say what to do. */
#include "server/http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http/request_checks.h"

enum {
    BACKLOG = 1024,
    /* The kernel buffers twice as much for a client that does not read. A small buffer fills soon,
       so that we notice. */
    SEND_BUFFER = 64 << 10,
};

static bool fail_bind(const char *option, const char *host, int port, int error, ey_err *e)
{
    if (error == EADDRINUSE && strcmp(option, "--ollama") == 0)
        return ey_fail(e, EY_IO,
                       "port %d of %s is in use; Ollama itself may be running: stop it, or give "
                       "--ollama another port",
                       port, host);
    if (error == EADDRINUSE)
        return ey_fail(e, EY_IO,
                       "port %d of %s is in use; another server may be running: choose another "
                       "port with --port, or any free one with --port 0",
                       port, host);
    if (error == EACCES)
        return ey_fail(e, EY_IO, "this user may not use port %d; use 1024 or a higher one", port);
    if (error == EADDRNOTAVAIL)
        return ey_fail(e, EY_BAD_REQUEST, "%s %s: this machine has no such address", option, host);
    return ey_fail(e, EY_IO, "cannot listen on %s, port %d: %s", host, port, strerror(error));
}

static bool listen_at(struct server_socket *l, const struct addrinfo *at)
{
    int on = 1, buffer = SEND_BUFFER;
    l->fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return l->fd >= 0 && setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
           setsockopt(l->fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)) == 0 &&
           bind(l->fd, at->ai_addr, at->ai_addrlen) == 0 && listen(l->fd, BACKLOG) == 0;
}

static void read_address(struct server_socket *l)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {0};
    socklen_t n = sizeof(address);
    getsockname(l->fd, &address.any, &n);
    l->v6 = address.any.sa_family == AF_INET6;
    l->port = ntohs(l->v6 ? address.v6.sin6_port : address.v4.sin_port);
    inet_ntop(address.any.sa_family,
              l->v6 ? (void *)&address.v6.sin6_addr : (void *)&address.v4.sin_addr, l->address,
              sizeof(l->address));
    l->loopback = is_loopback_host(l->address);
}

bool server_socket_open(struct server_socket *l, const char *option, const char *host, int port,
                        ey_err *e)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM},
                    *found = NULL;
    char service[16];
    snprintf(service, sizeof(service), "%d", port);
    *l = (struct server_socket){.fd = -1};
    int status = getaddrinfo(host, service, &hints, &found);
    if (status) return ey_fail(e, EY_BAD_REQUEST, "%s %s: %s", option, host, gai_strerror(status));
    bool ok = listen_at(l, found) || fail_bind(option, host, port, errno, e);
    freeaddrinfo(found);
    if (ok)
        read_address(l);
    else
        server_socket_close(l);
    return ok;
}

void server_socket_close(struct server_socket *l)
{
    if (l->fd >= 0) close(l->fd);
    l->fd = -1;
}
