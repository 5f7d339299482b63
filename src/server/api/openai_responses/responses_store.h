/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the last responses in memory, for clients that refer to them. Each belongs to the API key
 * of the request that it answered. */
#ifndef EY_SERVER_RESPONSES_STORE_H
#define EY_SERVER_RESPONSES_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    RESPONSES_STORE_COUNT = 512,
    RESPONSES_STORE_BYTES = 16 << 20,
    RESPONSES_STORE_SECONDS = 3600, /* since creation or last use */
    RESPONSES_ID_BYTES = 48,
    RESPONSES_OWNER_BYTES = 32
};

/* Texts are NUL-terminated JSON. */
struct stored_response {
    char id[RESPONSES_ID_BYTES], previous[RESPONSES_ID_BYTES]; /* previous is "" if there is none */
    char *input;                                               /* array of the input items */
    char *response;                                            /* the response object */
};

struct responses_store;

/* max_bytes 0 stores nothing. */
bool responses_store_open(struct responses_store **store, size_t max_bytes, ey_err *e);
void responses_store_close(struct responses_store **store);
bool responses_store_keeps(const struct responses_store *store, size_t n_bytes);

/* Stores a copy, and drops the least recently used responses to make room. Fails if the copy is too
 * large or memory runs out. */
bool responses_store_put(struct responses_store *store, const unsigned char *owner,
                         const struct stored_response *response, double now);
/* A stored response without its texts: the size of their pages in bytes, and the ids of the
 * response and of its predecessor. */
struct stored_link {
    size_t n_bytes;
    char id[RESPONSES_ID_BYTES], previous[RESPONSES_ID_BYTES];
};

/* Finds a response without copying its texts; this counts as a use of it. */
bool responses_store_find(struct responses_store *store, const unsigned char *owner, const char *id,
                          double now, struct stored_link *out);
/* Copies a response; free it with responses_store_free(). Returns false if it is absent (or there
 * is no memory). */
bool responses_store_get(struct responses_store *store, const unsigned char *owner, const char *id,
                         double now, struct stored_response *out);
/* Like responses_store_find(), for the response that has an output item with this id. */
bool responses_store_find_item(struct responses_store *store, const unsigned char *owner,
                               const char *item_id, double now, struct stored_link *out);
bool responses_store_delete(struct responses_store *store, const unsigned char *owner,
                            const char *id, double now);
void responses_store_free(struct stored_response *response);

#endif
