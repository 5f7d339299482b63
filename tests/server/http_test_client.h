/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of the server share: servers in processes of their own, and a client that says to a
 * socket exactly what it is told to. Whatever fails here fails the test. */
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
    int log; /* descriptor of the file that its standard error goes to */
};

/* Options of the demo model on any free port. */
struct server_options demo_options(void);
/* Starts one and waits until it listens. */
struct running server_start(const struct server_options *options);
/* Waits until the log has this text. */
void server_await_log(const struct running *s, const char *text);
/* Everything that it has written; the caller frees. */
char *server_log(const struct running *s);
void server_signal(const struct running *s, int number);
/* Waits until it has ended by itself or a signal; its exit status, or 128 and the signal that it
 * died of. */
int server_wait(struct running *s);
/* SIGTERM and server_wait, which must be 0. */
void server_stop(struct running *s);

/* ---- a client ---- */

int web_connect(int port);
/* From 127.0.0.`host`. */
int web_connect_from(int port, int host);
/* As web_connect, with the smallest receive buffer that there is. */
int web_connect_narrow(int port);
void web_say(int fd, const char *text);
void web_send(int fd, const void *bytes, size_t n);
/* Sends as much as is taken; false: the other end is gone. */
bool web_try_send(int fd, const void *bytes, size_t n);
/* Bytes until `text` is among them or the connection ends, NUL behind; at most 1 MiB. The caller
 * frees. */
char *web_hear_until(int fd, const char *text);
/* Waits until the other end closes; returns what came before. */
char *web_hear_all(int fd);

struct reply {
    int status; /* 0: none came */
    char *head, *body;
    bool closed; /* the connection ended with it */
};
/* One reply, with a Content-Length or in chunks. */
struct reply web_reply(int fd);
void reply_free(struct reply *r);
bool reply_has(const struct reply *r, const char *header_line);
/* Says a whole request on a connection of its own. `more`: header lines, each with its \r\n. */
struct reply web_ask(int port, const char *method, const char *path, const char *more,
                     const char *body);
/* web_ask, for the value of a metric: the first with this name, or the one with these labels, too
 * (NAME{LABELS}); -1: it is not there. */
double web_metric(int port, const char *name);
/* Waits until it has that value. */
void web_await_metric(int port, const char *name, double value);

#endif
