/* SPDX-License-Identifier: Apache-2.0 */
/* The last responses, in memory only, for clients that refer to them: each belongs to the key that
 * it was made with. */
#ifndef EY_SERVER_RESPONSES_STORE_H
#define EY_SERVER_RESPONSES_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    RESPONSES_STORE_COUNT = 512,
    RESPONSES_STORE_BYTES = 16 << 20,
    RESPONSES_STORE_SECONDS = 3600, /* since it was made or last continued */
    RESPONSES_ID_BYTES = 48,
    RESPONSES_OWNER_BYTES = 32
};

/* Texts are JSON with a NUL behind. */
struct stored_response {
    char id[RESPONSES_ID_BYTES], previous[RESPONSES_ID_BYTES]; /* previous "": none */
    char *input;                                               /* array of the items asked with */
    char *response;                                            /* the response object */
};

struct responses_store;

/* max_bytes 0: it keeps nothing. */
bool responses_store_open(struct responses_store **store, size_t max_bytes, ey_err *e);
void responses_store_close(struct responses_store **store);
bool responses_store_keeps(const struct responses_store *store, size_t n_bytes);

/* Copies it; the oldest ones go to make room. False: it is too large, or there is no memory. */
bool responses_store_put(struct responses_store *store, const unsigned char *owner,
                         const struct stored_response *response, double now);
/* A copy, which responses_store_free frees. False: it is not there (or there is no memory). */
bool responses_store_get(struct responses_store *store, const unsigned char *owner, const char *id,
                         double now, struct stored_response *out);
/* The response that has an output item of this id. */
bool responses_store_find_item(struct responses_store *store, const unsigned char *owner,
                               const char *item_id, double now, struct stored_response *out);
bool responses_store_delete(struct responses_store *store, const unsigned char *owner,
                            const char *id, double now);
void responses_store_free(struct stored_response *response);

#endif
