/* SPDX-License-Identifier: Apache-2.0 */
/* The server: what `eyelet serve` starts. It runs until a signal stops it. */
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

/* A model, and what requests may call it. */
struct server_model {
    const char *path;                    /* what the engine opens */
    const char *names[SERVER_MAX_NAMES]; /* as /v1/models lists them; the first is reported. None:
                                            the path */
    size_t n_names;
    const char *aliases[SERVER_MAX_ALIASES]; /* further ones, that are understood and not listed;
                                                NULL: none */
};

struct server_options {
    ey_engine_options engine; /* device, context … of each model; its model, budget and progress are
                                 the server's own */
    struct server_model
        models[SERVER_MAX_MODELS]; /* the first is the one of requests that name none */
    size_t n_models;
    int max_loaded;           /* models that are loaded at once; 0: as many as fit in memory */
    struct api_keys keys;     /* any of them grants access; none: no key is needed */
    const char *api_key_file; /* of the last of them, read again on SIGHUP; NULL: none is there */
    size_t n_given_keys;      /* the first ones, which are not the file's */
    const char *host;         /* "127.0.0.1" */
    int port;                 /* 8000; 0: any free one */
    const char *ollama_host;  /* of a second socket for Ollama's clients; NULL: there is none */
    int ollama_port;
    bool ollama_insecure; /* no key is asked for there, whatever its address */
    const char *ssl_keyfile, *ssl_certfile;
    const char *origins[SERVER_MAX_DOMAINS]; /* web pages that may call, or "*" */
    size_t n_origins;
    const char *media_domains[SERVER_MAX_DOMAINS]; /* hosts that images may be fetched from; none:
                                                      http is off */
    size_t n_media_domains;
    const char *local_media_path;          /* directory of file:// images; NULL: off */
    const char *hosts[SERVER_MAX_DOMAINS]; /* further names that a Host header may have */
    size_t n_hosts;
    uint64_t
        max_pixels; /* of an image whose request has no budget of its own; 0: as its detail says */
    int64_t seed;   /* of requests that have none; < 0: a new one each */
    uint64_t host_bytes; /* budget of bodies and decoded images in flight; 0: min(1 GiB, a quarter
                            of the memory) */
    size_t responses_bytes; /* of the responses that are kept in memory; 0: none are */
    int max_images;         /* of one request */
    int max_connections; /* requests that are received, answered or sent at once; each a thread */
    const char *proxies[SERVER_MAX_DOMAINS]; /* addresses that say who their clients are */
    size_t n_proxies;
    int idle_unload_seconds; /* 0: never */
    int drain_seconds;       /* how long streams may go on after SIGTERM */
    bool insecure;           /* a non-loopback host without a key is meant so */
    ey_thinking thinking;    /* of requests that say nothing of it */
    int loop_tokens;         /* an answer that long which repeats itself is ended; 0: never */
    bool strict;             /* unknown fields are refused, not only named */
    bool log_requests;       /* the bodies of requests too, cut at 4,096 bytes */
    bool quiet;
    /* seconds: for a request's headers; for its body (longer at EY_BODY_BYTES_PER_SECOND); without
     * a request on an open connection; without the client taking or sending a byte */
    double header_seconds, body_seconds, idle_seconds, stall_seconds;
    double
        turn_seconds; /* how long a busy model admits requests while another waits for its memory */
};

struct server_options server_defaults(void);

/* Serves until SIGTERM or SIGINT, which stay blocked then: one that comes late would change the
 * exit status. False: it could not start, or the engine could not be opened. */
bool server_run(const struct server_options *options, ey_err *e);

#endif
