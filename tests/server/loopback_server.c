/* SPDX-License-Identifier: Apache-2.0 */
/* The server's thread accepts, reads a request, answers and closes. Any failure ends the test
 * program. */
#include "server/loopback_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_REQUEST = 8 << 20, PATIENCE_MS = 300000 };

static struct {
    int listener, answered;
    loopback_fn *answer;
    void *user;
    pthread_t thread;
} server;

static void require(bool ok, const char *what)
{
    if (ok) return;
    perror(what);
    exit(1);
}

/* The body's length, from the head. */
static size_t body_bytes(const char *head)
{
    for (const char *line = head; (line = strstr(line, "\r\n")); line++)
        if (strncasecmp(line, "\r\nContent-Length:", 17) == 0) return strtoul(line + 17, NULL, 10);
    return 0;
}

/* Reads head and body into all[MAX_REQUEST]. Returns the offset of the body, or 0 if the client
 * left early. */
static size_t read_request(int fd, char *all, size_t *n_body)
{
    size_t n = 0, body = 0;
    *n_body = 0;
    while (!body || n < body + *n_body) {
        ssize_t got = read(fd, all + n, MAX_REQUEST - 1 - n);
        if (got <= 0) return 0;
        n += (size_t)got;
        all[n] = 0;
        char *end = body ? NULL : strstr(all, "\r\n\r\n");
        if (!end) continue;
        end[2] = 0; /* terminates the head for body_bytes and the test */
        body = (size_t)(end + 4 - all);
        *n_body = body_bytes(all);
    }
    return body;
}

static void serve_one(int fd, char *all)
{
    size_t n_body, body = read_request(fd, all, &n_body);
    struct loopback_request request = {fd, all, all + body, n_body, server.user};
    if (body) {
        server.answer(&request);
        server.answered++;
    }
}

static void *serve(void *unused)
{
    char *all = malloc(MAX_REQUEST);
    require(all, "memory");
    for (int fd; (fd = accept(server.listener, NULL, NULL)) >= 0;) {
        serve_one(fd, all);
        close(fd);
    }
    free(all);
    return unused;
}

int loopback_start(loopback_fn *answer, void *user)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof(at);
    server.listener = socket(AF_INET, SOCK_STREAM, 0);
    server.answer = answer;
    server.user = user;
    server.answered = 0;
    require(bind(server.listener, (struct sockaddr *)&at, n) == 0 &&
                listen(server.listener, 16) == 0,
            "listen");
    require(getsockname(server.listener, (struct sockaddr *)&at, &n) == 0, "getsockname");
    require(pthread_create(&server.thread, NULL, serve, NULL) == 0, "thread");
    return ntohs(at.sin_port);
}

int loopback_stop(void)
{
    shutdown(server.listener, SHUT_RDWR); /* wakes accept */
    pthread_join(server.thread, NULL);
    close(server.listener);
    return server.answered;
}

void loopback_say(const struct loopback_request *request, const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    require(n >= 0, "memory");
    for (int sent = 0; sent < n;) {
        ssize_t more = send(request->fd, text + sent, (size_t)(n - sent), MSG_NOSIGNAL);
        if (more <= 0) break;
        sent += (int)more;
    }
    free(text);
}

void loopback_wait_for_end(const struct loopback_request *request)
{
    struct pollfd end = {.fd = request->fd, .events = POLLIN | POLLRDHUP};
    require(poll(&end, 1, PATIENCE_MS) == 1, "a client that should leave stays");
}
