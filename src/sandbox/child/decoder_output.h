/* SPDX-License-Identifier: Apache-2.0 */
/* What decoders share: the bitmap that they give (sandbox_message.h), and their replies. */
#ifndef EY_SANDBOX_DECODER_OUTPUT_H
#define EY_SANDBOX_DECODER_OUTPUT_H

#include "sandbox/sandbox_message.h"

struct decoder_output {
    int fd; /* an empty memory file, which gets the bitmap and all seals */
    uint64_t max;
};

/* The first line of `text`. */
void decoder_reply(struct reply_message *reply, enum reply_status status, const char *text);
/* The memory of the bitmap's pixels; NULL with *reply filled: it is too large, or there is none. */
uint8_t *bitmap_open(const struct decoder_output *output, const struct bitmap_header *header,
                     struct reply_message *reply);
/* Seals what was written there, and fills *reply. */
void bitmap_finish(const struct decoder_output *output, const struct bitmap_header *header,
                   uint8_t *pixels, struct reply_message *reply);
/* Gives up what bitmap_open gave. */
void bitmap_abandon(const struct bitmap_header *header, uint8_t *pixels);

#endif
