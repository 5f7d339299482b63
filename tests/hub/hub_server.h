/* SPDX-License-Identifier: Apache-2.0 */
/* A fake Hugging Face hub on 127.0.0.1, in its own process: listings, HEAD and GET of files,
 * redirects of large files to a second port, ranges, and faults in all of these. */
#ifndef EY_TESTS_HUB_HUB_SERVER_H
#define EY_TESTS_HUB_HUB_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { SERVED_FILES = 32 };

struct served_file {
    char name[256]; /* as in the listing */
    const uint8_t *data;
    size_t size;
    bool large; /* kept in LFS: SHA-256, another host; else git's hash */
    char etag[65];
};

enum misbehaviour {
    WELL_BEHAVED,
    GATED,         /* 401 without a token, 403 with one */
    NO_SUCH_MODEL, /* 401 and RepoNotFound, the hub's answer without a token */
    NO_SUCH_REVISION,
    BAD_TOKEN,
    FORBIDDEN,
    TOO_MANY, /* 429 */
    UNWELL,   /* 503 */
    ETAG_CLIMBS,
    ETAG_LONG,
    ETAG_NONE,
    COMMIT_CLIMBS,
    OTHER_COMMIT,
    NO_SIZE,
    HUGE_SIZE,
    IGNORES_RANGES, /* answers with the whole file */
    WRONG_RANGE,
    OTHER_TOTAL,
    TOO_MUCH,
    COMPRESSED,
    LOGIN_PAGE,
    REDIRECTS_ROUND,
    REDIRECTS_NOWHERE,
    REDIRECTS_TO_FILE,
    WRONG_BYTES, /* in large files, always */
    LISTING_BROKEN,
    LISTING_LONG,
    HEADERS_LONG,
};

/* Shared with the server's process; may be changed while it runs. */
struct hub_script {
    char repository[128], revision[128], commit[41];
    struct served_file file[SERVED_FILES];
    size_t n;
    char token[64];  /* that the endpoint requires; "": none */
    bool proxy_asks; /* the proxy requires a password and accepts any */
    enum misbehaviour misbehaviour;
    int cut_one_in, fail_one_in; /* answers of either port; 0: none */
    atomic_int wrong_once;       /* so many of the next large files have a wrong byte */
    uint32_t bytes_per_ms;       /* rate of bodies; 0: unlimited */
    _Atomic uint64_t hold_after; /* holds bodies back after so many bytes; 0: never */
    int gather;                  /* holds large files until so many are requested together */
    unsigned seed;
    /* statistics */
    atomic_uint requests, elsewhere, tokens_elsewhere, ranges, cuts, proxied;
    _Atomic uint64_t begun, bytes;    /* bytes of bodies begun and sent */
    atomic_int connections;           /* open now */
    atomic_int at_once, most_at_once; /* concurrent GETs of large files */
};

/* Creates a script in shared memory. */
struct hub_script *hub_script_new(const char *repository);
/* Adds a file and computes its etag. The caller keeps the bytes until the server stops. */
void hub_script_add(struct hub_script *s, const char *name, const void *data, size_t size,
                    bool large);
/* Starts a server on two ports and returns its process; *port is the endpoint's. That port is also
 * a proxy (GET http://…), which answers for any host. */
pid_t hub_server_start(struct hub_script *s, int *port);
/* Waits until all requests of closed clients are answered and counted. */
void hub_server_await_rest(void);
void hub_server_stop(pid_t server);

#endif
