/* SPDX-License-Identifier: Apache-2.0 */
/* API keys, kept as digests only. */
#ifndef EY_SERVER_API_KEYS_H
#define EY_SERVER_API_KEYS_H

#include "base/err.h"

enum { SERVER_MAX_KEYS = 64 };

struct api_keys {
    unsigned char digest[SERVER_MAX_KEYS][32];
    size_t n;
};

bool api_keys_add(struct api_keys *keys, const char *key, ey_err *e);
/* Adds the keys in a file, one per line. */
bool api_keys_add_file(struct api_keys *keys, const char *path, ey_err *e);
/* Whether an Authorization header has one of the keys, in constant time. */
bool api_keys_accept(const struct api_keys *keys, const char *authorization);
/* Like api_keys_accept for a bare key, as in x-api-key. */
bool api_keys_accept_key(const struct api_keys *keys, const char *key);

#endif
