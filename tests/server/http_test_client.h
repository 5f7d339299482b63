/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by tests of the server: servers in child processes, and a client that sends exact bytes.
 * Any failure fails the test. */
#ifndef EY_TESTS_SERVER_HTTP_TEST_CLIENT_H
#define EY_TESTS_SERVER_HTTP_TEST_CLIENT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>

#include "server/server.h"

/* ---- servers ---- */

struct running {
    pid_t pid;
    int port;
    int log; /* descriptor of the file with its standard error */
};

/* Options of a server with the demo model on a free port. */
struct server_options demo_options(void);
/* Starts a server and waits until it listens. */
struct running server_start(const struct server_options *options);
/* Waits until the log has this text. */
void server_await_log(const struct running *s, const char *text);
/* Returns the whole log; the caller frees it. */
char *server_log(const struct running *s);
void server_signal(const struct running *s, int number);
/* Waits until the server has ended by itself or by a signal. Returns its exit status, or 128 plus
 * the signal that killed it. */
int server_wait(struct running *s);
/* Sends SIGTERM and waits; the exit status must be 0. */
void server_stop(struct running *s);

/* ---- a client ---- */

int web_connect(int port);
/* Connects from 127.0.0.`host`. */
int web_connect_from(int port, int host);
/* Like web_connect, with the smallest possible receive buffer. */
int web_connect_narrow(int port);
void web_say(int fd, const char *text);
void web_send(int fd, const void *bytes, size_t n);
/* Sends until all is sent or the peer has closed; then returns false. */
bool web_try_send(int fd, const void *bytes, size_t n);
/* Receives until `text` has come or the connection ends, at most 1 MiB. The caller frees the
 * NUL-terminated result. */
char *web_hear_until(int fd, const char *text);
/* Receives until the peer closes and returns all that came; the caller frees it. */
char *web_hear_all(int fd);

struct reply {
    int status; /* 0: no reply */
    char *head, *body;
    bool closed; /* whether the server closed the connection */
};
/* Reads one reply, with a Content-Length or chunked. */
struct reply web_reply(int fd);
void reply_free(struct reply *r);
bool reply_has(const struct reply *r, const char *header_line);
/* Sends a request on a new connection. `more`: header lines, each ending in \r\n. */
struct reply web_ask(int port, const char *method, const char *path, const char *more,
                     const char *body);
/* Asks for a metric's value: the first with this name or, given NAME{LABELS}, the one with these
 * labels; -1 if there is none. */
double web_metric(int port, const char *name);
/* Waits until the metric has this value. */
void web_await_metric(int port, const char *name, double value);

#endif
