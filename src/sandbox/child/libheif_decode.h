/* SPDX-License-Identifier: Apache-2.0 */
/* HEIC and AVIF to a bitmap (sandbox_message.h), by libheif. */
#ifndef EY_SANDBOX_LIBHEIF_DECODE_H
#define EY_SANDBOX_LIBHEIF_DECODE_H

#include "sandbox/sandbox_message.h"

/* Loads the library with its codecs, while files may still be opened. Without it jobs fail. */
void libheif_load(void);

struct libheif_output {
    int fd; /* an empty memory file, which gets the bitmap and all seals */
    uint64_t max;
};
/* Fills *reply with what came of it. */
void libheif_decode(struct reply_message *reply, enum job_kind kind, const uint8_t *input, size_t n,
                    const struct libheif_output *output);

#endif
