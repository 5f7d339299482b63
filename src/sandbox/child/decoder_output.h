/* SPDX-License-Identifier: Apache-2.0 */
/* All decoders write their bitmap (sandbox_message.h) and fill their reply with these functions. */
#ifndef EY_SANDBOX_DECODER_OUTPUT_H
#define EY_SANDBOX_DECODER_OUTPUT_H

#include <pthread.h>

#include "sandbox/sandbox_message.h"

struct decoder_output {
    int fd;       /* an empty memory file for the bitmap, sealed at the end */
    uint64_t max; /* bytes */
};

/* Fills *reply with a status and the first line of `text`. */
void decoder_reply(struct reply_message *reply, enum reply_status status, const char *text);

/* Memory whose pages a thread allocates in advance, so that writers have no page faults. */
struct page_range {
    uintptr_t start;
    size_t n;
};

/* A bitmap that is being written. */
struct open_bitmap {
    struct page_range map, heap;
    bool populating;
    pthread_t populator;
};

/* Opens a bitmap and returns the address of its pixels. `heap` is the number of bytes that a
 * decoder allocates while it writes the pixels: meanwhile another thread allocates the pages of the
 * bitmap and of that heap. If `heap` is 0, the pages of the bitmap are allocated before the
 * function returns. Returns NULL and fills *reply if the bitmap is too large or memory is short. */
uint8_t *bitmap_open(struct open_bitmap *bitmap, const struct decoder_output *output,
                     const struct bitmap_header *header, size_t heap, struct reply_message *reply);
/* Seals the bitmap and fills *reply. */
void bitmap_finish(struct open_bitmap *bitmap, const struct decoder_output *output,
                   struct reply_message *reply);
/* Unmaps the bitmap. */
void bitmap_abandon(struct open_bitmap *bitmap);

#endif
