/* SPDX-License-Identifier: Apache-2.0 */
/* Functions with which all decoders write their bitmap (sandbox_message.h) and fill their reply. */
#ifndef EY_SANDBOX_DECODER_OUTPUT_H
#define EY_SANDBOX_DECODER_OUTPUT_H

#include "sandbox/sandbox_message.h"

struct decoder_output {
    int fd;       /* an empty memory file for the bitmap, sealed at the end */
    uint64_t max; /* bytes */
};

/* Fills *reply with a status and the first line of `text`. */
void decoder_reply(struct reply_message *reply, enum reply_status status, const char *text);
/* Returns where the caller writes the bitmap's pixels. Returns NULL and fills *reply if the bitmap
 * is too large or memory is short. */
uint8_t *bitmap_open(const struct decoder_output *output, const struct bitmap_header *header,
                     struct reply_message *reply);
/* Seals the bitmap and fills *reply. */
void bitmap_finish(const struct decoder_output *output, const struct bitmap_header *header,
                   uint8_t *pixels, struct reply_message *reply);
/* Unmaps the pixels of bitmap_open. */
void bitmap_abandon(const struct bitmap_header *header, uint8_t *pixels);

#endif
