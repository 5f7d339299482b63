/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of an exchange: http_server.c receives it, http_exchange.c replies to it. */
#ifndef EY_SERVER_HTTP_EXCHANGE_INTERNAL_H
#define EY_SERVER_HTTP_EXCHANGE_INTERNAL_H

#include <microhttpd.h>

#include "server/http/connections.h"
#include "server/server_context.h"

enum { MAX_REPLY_HEADERS = 16 };

/* Why a request is rejected. The reply is sent once the body has been received and discarded. */
struct request_refusal {
    int status; /* 0: accepted */
    char message[256];
    char name[24], value[64]; /* a header of the reply, or "" */
};

struct exchange {
    struct server *server;
    struct connections *connections;
    struct http_connection *connection;
    struct MHD_Connection *mhd;
    char client[INET6_ADDRSTRLEN]; /* for the log */
    ey_budget *budget;             /* the client's part of the server's; NULL until admitted */
    bool ollama;                   /* came through Ollama's port */
    const char *bound_to;          /* address of the listening socket */
    double started;
    const char *method, *path; /* valid once the headers have arrived */
    const char *target;        /* the raw request target; valid until the headers have arrived */
    size_t n_target;
    bool bad_target;
    char log_path[128]; /* for the log: printable ASCII, without the query */

    const struct route *route; /* NULL for a file of the page, or if refused */
    const struct page_file *file;
    const char *argument;       /* the rest of the path of a ROUTE_ANY_END route */
    error_form_fn *write_error; /* of the path's dialect; NULL: OpenAI's */
    struct request_refusal refusal;
    bool zstd; /* the body is compressed */
    bool cors; /* a page of another origin may read the reply */
    char *body;
    size_t n_body, capacity, n_received, n_expected; /* n_expected: Content-Length, 0 if unknown;
                                                        n_received counts discarded bytes too */
    uint64_t budget_held;                            /* bytes of the budget for the body */
    uint64_t charged;                                /* bytes of the budget for the rest */
    bool headers_seen, closes_connection;            /* closes_connection: after this reply */

    struct {
        char *name, *value;
    } header[MAX_REPLY_HEADERS];
    size_t n_headers;
    int status; /* of the reply, 0 if none was sent yet */
    bool queued;
    struct response_stream stream;
    bool streaming;
};

/* Frees the exchange and everything that it holds. */
void exchange_free(struct exchange *x);
/* Replies without a body, or with static bytes. */
void exchange_reply_empty(struct exchange *x, int status);
void exchange_reply_static(struct exchange *x, int status, const char *content_type,
                           const void *bytes, size_t n);
#endif
