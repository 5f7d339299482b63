/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of an exchange: http_server.c receives it, http_exchange.c replies to it. */
#ifndef EY_SERVER_HTTP_EXCHANGE_INTERNAL_H
#define EY_SERVER_HTTP_EXCHANGE_INTERNAL_H

#include <microhttpd.h>

#include "server/http/connections.h"
#include "server/server_context.h"

enum { MAX_REPLY_HEADERS = 16 };

/* Why a request is rejected; sent after its body, which is discarded, has been received. */
struct request_refusal {
    int status; /* 0: it is accepted */
    char message[256];
    char name[24], value[64]; /* a header that goes with it; "": none */
};

struct exchange {
    struct server *server;
    struct connections *connections;
    struct http_connection *connection;
    struct MHD_Connection *mhd;
    char client[INET6_ADDRSTRLEN]; /* for the log */
    ey_budget *budget;             /* the client's part of the server's; NULL: not admitted */
    bool ollama;                   /* it came by Ollama's port */
    const char *bound_to;          /* address of the socket that it came by */
    double started;
    const char *method, *path; /* from when its headers are there */
    const char
        *target; /* the request line's target as it came; valid until the headers are there */
    size_t n_target;
    bool bad_target;
    char log_path[128]; /* for the log: without query, control characters made visible */

    const struct route *route; /* NULL: a file of the page, or refused */
    const struct page_file *file;
    const char *argument;       /* the rest of a path that a route takes with any end */
    error_form_fn *write_error; /* of the path; NULL: OpenAI's */
    struct request_refusal refusal;
    bool cors; /* a page of another origin may read the reply */
    char *body;
    size_t n_body, capacity, n_received,
        n_expected;       /* received: thrown away ones too; expected: 0: not said */
    uint64_t budget_held; /* of the budget */
    uint64_t charged;     /* of it, for more than the body */
    bool headers_seen, closes_connection; /* close: the connection ends with this reply */

    struct {
        char *name, *value;
    } header[MAX_REPLY_HEADERS];
    size_t n_headers;
    int status; /* of the reply; 0: none yet */
    bool queued;
    struct response_stream stream;
    bool streaming;
};

/* Frees what the exchange holds, and itself. */
void exchange_free(struct exchange *x);
/* The reply without a body, or with bytes that live for ever. */
void exchange_reply_empty(struct exchange *x, int status);
void exchange_reply_static(struct exchange *x, int status, const char *content_type,
                           const void *bytes, size_t n);
#endif
