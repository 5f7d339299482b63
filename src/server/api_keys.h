/* SPDX-License-Identifier: Apache-2.0 */
/* API keys, of which the server keeps digests only. */
#ifndef EY_SERVER_API_KEYS_H
#define EY_SERVER_API_KEYS_H

#include "base/err.h"

enum { SERVER_MAX_KEYS = 64 };

struct api_keys {
    unsigned char digest[SERVER_MAX_KEYS][32];
    size_t n;
};

bool api_keys_add(struct api_keys *keys, const char *key, ey_err *e);
/* Each line of a file is one. */
bool api_keys_add_file(struct api_keys *keys, const char *path, ey_err *e);
/* Whether an Authorization header has one of them; takes equally long whichever it is, and however
 * much of one is right. */
bool api_keys_accept(const struct api_keys *keys, const char *authorization);
/* The same of a bare one, as x-api-key has it. */
bool api_keys_accept_key(const struct api_keys *keys, const char *key);

#endif
