/* SPDX-License-Identifier: Apache-2.0 */
/* The server of `eyelet serve`. It runs until a signal stops it. */
#ifndef EY_SERVER_SERVER_H
#define EY_SERVER_SERVER_H

#include "eyelet/request.h"
#include "base/err.h"
#include "base/limits.h"
#include "eyelet/plan.h"
#include "server/api_keys.h"

enum {
    SERVER_MAX_MODELS = EY_MAX_MODELS,
    SERVER_MAX_NAMES = 16,
    SERVER_MAX_ALIASES = 3,
    SERVER_MAX_DOMAINS = 64,
    SERVER_DEFAULT_IMAGES = 16,
    SERVER_DEFAULT_CONNECTIONS = 256
};

/* A model and its names. */
struct server_model {
    const char *path;                    /* opened by the engine */
    const char *names[SERVER_MAX_NAMES]; /* listed by /v1/models; replies have the first. If there
                                           is none, the path is the name */
    size_t n_names;
    const char *aliases[SERVER_MAX_ALIASES]; /* accepted, not listed; NULL ends them */
};

struct server_options {
    ey_engine_options engine; /* for each model; the server sets its model, budget and progress */
    struct server_model models[SERVER_MAX_MODELS]; /* the first is the default */
    size_t n_models;
    int max_loaded;           /* most models loaded at once; 0: as many as fit in memory */
    struct api_keys keys;     /* accepted keys; none: no key is needed */
    const char *api_key_file; /* source of the keys after n_given_keys, reread on SIGHUP; or NULL */
    size_t n_given_keys;      /* leading keys that are not from the file */
    const char *host;         /* "127.0.0.1" */
    int port;                 /* 8000; 0: any free port */
    const char *ollama_host;  /* address of a second socket for Ollama's clients, or NULL */
    int ollama_port;
    bool ollama_insecure; /* that socket never requires a key */
    const char *ssl_keyfile, *ssl_certfile;
    const char *origins[SERVER_MAX_DOMAINS]; /* origins of web pages that may call, or "*" */
    size_t n_origins;
    const char *media_domains[SERVER_MAX_DOMAINS]; /* hosts that images may be fetched from; none:
                                                     no fetching */
    size_t n_media_domains;
    const char *local_media_path;          /* directory of file:// images; NULL: off */
    const char *hosts[SERVER_MAX_DOMAINS]; /* further names accepted in Host headers */
    size_t n_hosts;
    uint64_t max_pixels; /* limit of an image for which the request sets neither a limit nor a
                            detail; 0: the default */
    int64_t seed;        /* of requests without a seed; < 0: random */
    uint64_t host_bytes; /* budget for bodies and decoded images in flight; 0: min(1 GiB, a quarter
                           of the available memory) */
    size_t responses_bytes;                  /* memory for stored responses; 0: none are stored */
    int max_images;                          /* per request */
    int max_connections;                     /* requests in progress at once; each has a thread */
    const char *proxies[SERVER_MAX_DOMAINS]; /* trusted proxies, whose Forwarded headers count */
    size_t n_proxies;
    int idle_unload_seconds;  /* 0: never */
    int drain_seconds;        /* time for requests to finish after SIGTERM or SIGINT */
    bool allow_pull;          /* clients may download and delete models of the hub */
    bool insecure;            /* allows a non-loopback address without a key */
    ey_thinking thinking;     /* default of requests */
    bool thinking_reserve;    /* chats reserve part of max_tokens for the answer after a thought */
    bool effort_budgets;      /* effort levels such as "low" limit the length of thoughts */
    const char *thinking_end; /* as ey_request.thinking_end */
    int loop_tokens;          /* tokens of repetition that end an answer; 0: never */
    bool strict;              /* refuse unknown fields instead of reporting them */
    bool log_requests;        /* log request bodies, truncated to 4,096 bytes */
    bool quiet;
    /* timeouts in seconds: for a request's headers; for its body (longer if it keeps arriving at
     * EY_BODY_BYTES_PER_SECOND); between requests; without the client reading or sending a byte */
    double header_seconds, body_seconds, idle_seconds, stall_seconds;
    double turn_seconds; /* how long a busy model admits requests while another model needs its
                            memory */
};

struct server_options server_defaults(void);

/* Serves until SIGTERM or SIGINT, which stay blocked afterwards, since a late one would change the
 * exit status. Fails if the server cannot start or a model cannot be opened. */
bool server_run(const struct server_options *options, ey_err *e);

#endif
