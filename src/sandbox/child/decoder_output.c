/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/child/decoder_output.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sandbox/sealed_memory.h"

void decoder_reply(struct reply_message *reply, enum reply_status status, const char *text)
{
    *reply = (struct reply_message){.status = status};
    snprintf(reply->text, sizeof(reply->text), "%.*s", (int)strcspn(text, "\n"), text);
}

/* UINT64_MAX if 64 bits do not hold it. */
static uint64_t bitmap_bytes(const struct bitmap_header *header)
{
    uint64_t pixels = (uint64_t)header->width * header->height, bytes;
    return __builtin_mul_overflow(pixels, header->channels, &bytes) ||
                   __builtin_add_overflow(bytes, BITMAP_HEADER_BYTES, &bytes)
               ? UINT64_MAX
               : bytes;
}

uint8_t *bitmap_open(const struct decoder_output *output, const struct bitmap_header *header,
                     struct reply_message *reply)
{
    uint64_t bytes = bitmap_bytes(header);
    uint8_t *map = MAP_FAILED;
    if (bytes > output->max) {
        decoder_reply(reply, REPLY_OUTPUT_TOO_LONG, "");
        return NULL;
    }
    if (ftruncate(output->fd, (off_t)bytes) == 0)
        map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, output->fd, 0);
    if (map == MAP_FAILED) {
        decoder_reply(reply, REPLY_NO_MEMORY, "");
        return NULL;
    }
    bitmap_header_write(map, header);
    return map + BITMAP_HEADER_BYTES;
}

void bitmap_abandon(const struct bitmap_header *header, uint8_t *pixels)
{
    munmap(pixels - BITMAP_HEADER_BYTES, bitmap_bytes(header));
}

void bitmap_finish(const struct decoder_output *output, const struct bitmap_header *header,
                   uint8_t *pixels, struct reply_message *reply)
{
    bitmap_abandon(header, pixels); /* a writable mapping prevents sealing */
    *reply = (struct reply_message){.status = REPLY_DONE, .value = bitmap_bytes(header)};
    if (!sealed_memory_seal(output->fd)) decoder_reply(reply, REPLY_NO_MEMORY, "");
}
