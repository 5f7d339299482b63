/* SPDX-License-Identifier: Apache-2.0 */
/* A Hugging Face hub of our own on 127.0.0.1, in a process of its own: listing, HEAD and GET of
 * files, redirects to a second port where the large ones are kept, ranges; and whatever goes wrong
 * with those. */
#ifndef EY_TESTS_HUB_HUB_SERVER_H
#define EY_TESTS_HUB_HUB_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { SERVED_FILES = 32 };

struct served_file {
    char name[256]; /* as the listing has it */
    const uint8_t *data;
    size_t size;
    bool large; /* kept in LFS: SHA-256, another host; else git's hash */
    char etag[65];
};

enum misbehaviour {
    WELL_BEHAVED,
    GATED,         /* 401 without a token, 403 with one */
    NO_SUCH_MODEL, /* 401 and RepoNotFound, as the hub says to who is nobody */
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
    WRONG_BYTES, /* of large files, always */
    LISTING_BROKEN,
    LISTING_LONG,
    HEADERS_LONG,
};

/* Shared with the server's process: may be changed while it runs. */
struct hub_script {
    char repository[128], revision[128], commit[41];
    struct served_file file[SERVED_FILES];
    size_t n;
    char token[64];  /* that the endpoint asks for; "": none */
    bool proxy_asks; /* as a proxy it wants a password, and takes any */
    enum misbehaviour misbehaviour;
    int cut_one_in, fail_one_in; /* of answers from either port; 0: none */
    atomic_int wrong_once;       /* the next so many answers of large files have a wrong byte */
    uint32_t bytes_per_ms;       /* of a body; 0: as fast as it goes */
    _Atomic uint64_t hold_after; /* bytes of bodies; what comes then waits; 0: nothing does */
    int gather;                  /* large files wait until so many are requested at once */
    unsigned seed;
    /* what happened */
    atomic_uint requests, elsewhere, tokens_elsewhere, ranges, cuts, proxied;
    _Atomic uint64_t begun, bytes;    /* of bodies: that are being sent or were, that were */
    atomic_int connections;           /* that are open */
    atomic_int at_once, most_at_once; /* GETs of large files */
};

/* A script in shared memory. */
struct hub_script *hub_script_new(const char *repository);
/* Adds a file; computes its etag. The bytes must be there when the server starts, and stay. */
void hub_script_add(struct hub_script *s, const char *name, const void *data, size_t size,
                    bool large);
/* Listens on two ports and serves until it is stopped; *port is the endpoint's. To whoever takes
 * that for a proxy (GET http://…) it is one, and answers in place of any host. */
pid_t hub_server_start(struct hub_script *s, int *port);
/* Waits until all that clients who have left asked for is answered and counted. */
void hub_server_await_rest(void);
void hub_server_stop(pid_t server);

#endif
