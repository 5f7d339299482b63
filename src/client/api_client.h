/* SPDX-License-Identifier: Apache-2.0 */
/* Makes HTTP calls to one server, one after the other on a persistent connection. */
#ifndef EY_CLIENT_API_CLIENT_H
#define EY_CLIENT_API_CLIENT_H

#include "base/buf.h"

struct api_client;

/* Prepares calls to the server at `url`, with or without http:// and /v1. `key` is an API key or
 * NULL. Both are copied. Does not connect yet. */
bool api_client_open(struct api_client **c, const char *url, const char *key, ey_err *e);
void api_client_close(struct api_client **c);
/* Returns the URL as the user gave it, without user and password. */
const char *api_client_url(const struct api_client *c);

struct api_call {
    const char *path;       /* below /v1, such as "/models" */
    const struct buf *body; /* JSON to POST, or NULL for GET */
    /* Receives the next bytes of a 200 reply. Returning false ends the call with *e. */
    bool (*take)(void *user, const char *bytes, size_t n, ey_err *e);
    /* Called whenever bytes are transferred, and at least once a second. Returning false cancels
     * the call. May be NULL. */
    bool (*go_on)(void *user, uint64_t sent, uint64_t to_send);
    void *user;
};

/* The error that a server replied with. */
struct api_call_error {
    long status; /* 0 if there was no reply */
    char param[160], message[768];
};

/* Makes a call. On failure, *e has the server's own message if it sent one. Fails with EY_CANCELLED
 * if go_on returned false. `call_error` may be NULL. */
bool api_client_call(struct api_client *c, const struct api_call *call,
                     struct api_call_error *call_error, ey_err *e);

#endif
