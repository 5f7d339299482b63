/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes request bodies with Content-Encoding: zstd. The first such request loads libzstd. */
#ifndef EY_SERVER_ZSTD_BODY_H
#define EY_SERVER_ZSTD_BODY_H

#include <stdbool.h>
#include <stddef.h>

enum {
    ZSTD_MAX_BODY_BYTES = 20 << 20, /* when decoded; Ollama's limit */
    ZSTD_MAX_WINDOW_LOG = 23,
    ZSTD_WORK_BYTES = (1 << ZSTD_MAX_WINDOW_LOG) + (1 << 20), /* memory for decoding */
};

/* Loads libzstd. Returns false if it is not installed. */
bool zstd_load(void);

enum zstd_result {
    ZSTD_DECODED,
    ZSTD_BROKEN,    /* not zstd, or its end is missing */
    ZSTD_TOO_LARGE, /* more bytes, or a larger window, than the limits above */
    ZSTD_STOPPED,   /* `take` returned false */
    ZSTD_NO_MEMORY
};
/* Decodes all frames of body[n]. `take` gets the bytes, at most ZSTD_MAX_BODY_BYTES in total. */
enum zstd_result zstd_decode(const char *body, size_t n,
                             bool (*take)(void *user, const char *bytes, size_t n), void *user);

#endif
