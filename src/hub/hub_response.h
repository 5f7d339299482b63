/* SPDX-License-Identifier: Apache-2.0 */
/* The hub's responses, parsed: headers and JSON. All input from the network is validated here. */
#ifndef EY_HUB_HUB_RESPONSE_H
#define EY_HUB_HUB_RESPONSE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"
#include "hub/name_checks.h"

/* Headers of one reply, as they came; "" are absent. One that is too long is absent, and `too_long`
 * is set. */
struct hub_response {
    int status;
    bool too_long;
    char location[EY_MAX_URL_BYTES + 1];
    char etag[256], linked_etag[256], linked_size[32], commit[64], content_range[96],
        content_length[32], content_encoding[32];
    char error_code[64], error_message[256], retry_after[32];
};

/* Takes a header line, with its line end. A status line begins anew. */
void hub_response_header(struct hub_response *r, const char *line, size_t n);

/* A file of a repository at one commit. */
struct hub_file {
    char name[HUB_FILE_NAME_BYTES + 1];
    char etag[HUB_ETAG_BYTES + 1]; /* its hash, and its blob's name */
    uint64_t size;
};

/* Etag and size out of the reply to a HEAD; `commit` is the requested one. */
bool hub_response_metadata(const struct hub_response *r, const char *commit, struct hub_file *file,
                           ey_err *e);

/* "bytes 5-9/100"; false: it is not that. */
bool hub_response_range(const struct hub_response *r, uint64_t *begin, uint64_t *end,
                        uint64_t *total);
/* Seconds of Retry-After, at most 60; `otherwise` where there is none. */
double hub_response_retry_after(const struct hub_response *r, double otherwise);

/* GET api/models/NAME/revision/REVISION: the commit, and whether a file is there. */
struct repo_listing {
    char commit[HUB_COMMIT_BYTES + 1];
    json_object *json;
};
bool repo_listing_read(struct repo_listing *out, const char *text, size_t n, ey_err *e);
bool repo_listing_has(const struct repo_listing *listing, const char *file);
/* The i-th file; NULL: there are no more, or it has no name. */
const char *repo_listing_at(const struct repo_listing *listing, size_t i);
size_t repo_listing_count(const struct repo_listing *listing);
void repo_listing_free(struct repo_listing *listing);

/* The shards that a model.safetensors.index.json names, each once, in order of their names. */
struct shard_names {
    char (*item)[HUB_FILE_NAME_BYTES + 1];
    size_t n;
};
bool shard_names_read(struct shard_names *out, const char *text, size_t n, ey_err *e);
void shard_names_free(struct shard_names *names);

#endif
