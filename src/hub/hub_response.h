/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the hub's responses: headers and JSON. All input from the network is validated here. */
#ifndef EY_HUB_HUB_RESPONSE_H
#define EY_HUB_HUB_RESPONSE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"
#include "hub/name_checks.h"

/* Headers of a reply; "" if absent. A header that is too long counts as absent and sets `too_long`.
 */
struct hub_response {
    int status;
    bool too_long;
    char location[EY_MAX_URL_BYTES + 1];
    char etag[256], linked_etag[256], linked_size[32], commit[64], content_range[96],
        content_length[32], content_encoding[32];
    char error_code[64], error_message[256], retry_after[32];
};

/* Stores a header line, which ends with its line break. A status line resets the headers. */
void hub_response_header(struct hub_response *r, const char *line, size_t n);

/* A file of a repository at one commit. */
struct hub_file {
    char name[HUB_FILE_NAME_BYTES + 1];
    char etag[HUB_ETAG_BYTES + 1]; /* its hash and blob name */
    uint64_t size;
};

/* Reads ETag and size from the reply to a HEAD. Fails if the reply is for another commit than
 * `commit`. */
bool hub_response_metadata(const struct hub_response *r, const char *commit, struct hub_file *file,
                           ey_err *e);

/* Parses Content-Range, "bytes 5-9/100". Returns false if it is malformed. */
bool hub_response_range(const struct hub_response *r, uint64_t *begin, uint64_t *end,
                        uint64_t *total);
/* Seconds of Retry-After, at most 60, or `otherwise` if it is absent. */
double hub_response_retry_after(const struct hub_response *r, double otherwise);

/* The reply to GET api/models/NAME/revision/REVISION: the commit and the files. */
struct repo_listing {
    char commit[HUB_COMMIT_BYTES + 1];
    json_object *json;
};
bool repo_listing_read(struct repo_listing *out, const char *text, size_t n, ey_err *e);
bool repo_listing_has(const struct repo_listing *listing, const char *file);
/* Returns the i-th file's name, or NULL if there are no more or it has no name. */
const char *repo_listing_at(const struct repo_listing *listing, size_t i);
size_t repo_listing_count(const struct repo_listing *listing);
void repo_listing_free(struct repo_listing *listing);

/* The shards that model.safetensors.index.json names, sorted, without duplicates. */
struct shard_names {
    char (*item)[HUB_FILE_NAME_BYTES + 1];
    size_t n;
};
bool shard_names_read(struct shard_names *out, const char *text, size_t n, ey_err *e);
void shard_names_free(struct shard_names *names);

#endif
