/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/child/decoder_output.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sandbox/sealed_memory.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum {
    PAGE_BYTES = 4096,
    POPULATE_STEP = 1 << 20,
    LEAST_THREADED = 1 << 20, /* for smaller bitmaps, a thread costs more than the page faults */
    MOST_HEAP = 32 << 20      /* M_MMAP_THRESHOLD: malloc maps larger blocks separately */
};

void decoder_reply(struct reply_message *reply, enum reply_status status, const char *text)
{
    *reply = (struct reply_message){.status = status};
    snprintf(reply->text, sizeof(reply->text), "%.*s", (int)strcspn(text, "\n"), text);
}

/* Returns the size of a bitmap, or UINT64_MAX if it exceeds 64 bits. */
static uint64_t bitmap_bytes(const struct bitmap_header *header)
{
    uint64_t pixels = (uint64_t)header->width * header->height, bytes;
    return __builtin_mul_overflow(pixels, header->channels, &bytes) ||
                   __builtin_add_overflow(bytes, BITMAP_HEADER_BYTES, &bytes)
               ? UINT64_MAX
               : bytes;
}

/* Allocates the pages of a range. Linux before 5.14 rejects the advice, and then allocates each
 * page when it is first written. */
static void populate_range(const struct page_range *range)
{
    const uintptr_t first = (range->start + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    const uintptr_t end = range->start + range->n;
    /* in steps, because brk() and mmap() of the decoder wait until a madvise() ends */
    for (uintptr_t at = first; at < end; at += POPULATE_STEP)
        madvise((void *)at, end - at < POPULATE_STEP ? end - at : POPULATE_STEP,
                MADV_POPULATE_WRITE);
}

static void *populate_bitmap(void *bitmap)
{
    const struct open_bitmap *b = bitmap;
    populate_range(&b->heap);
    populate_range(&b->map);
    return NULL;
}

/* Returns the range of the heap from which malloc will take the next n bytes; empty if it would map
 * them separately. */
static struct page_range next_heap(size_t n)
{
    void *at = n < MOST_HEAP ? malloc(n) : NULL;
    const struct page_range range = {(uintptr_t)at, at ? n : 0};
    free(at); /* the range stays in the heap (M_TRIM_THRESHOLD) */
    return range;
}

uint8_t *bitmap_open(struct open_bitmap *bitmap, const struct decoder_output *output,
                     const struct bitmap_header *header, size_t heap, struct reply_message *reply)
{
    const uint64_t bytes = bitmap_bytes(header);
    const bool threaded = heap && bytes >= LEAST_THREADED;
    uint8_t *map = MAP_FAILED;
    if (bytes > output->max) {
        decoder_reply(reply, REPLY_OUTPUT_TOO_LONG, "");
        return NULL;
    }
    if (ftruncate(output->fd, (off_t)bytes) == 0)
        map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (threaded ? 0 : MAP_POPULATE),
                   output->fd, 0);
    if (map == MAP_FAILED) {
        decoder_reply(reply, REPLY_NO_MEMORY, "");
        return NULL;
    }
    *bitmap = (struct open_bitmap){.map = {(uintptr_t)map, bytes}};
    bitmap_header_write(map, header);
    if (threaded) {
        bitmap->heap = next_heap(heap);
        bitmap->populating = pthread_create(&bitmap->populator, NULL, populate_bitmap, bitmap) == 0;
    }
    return map + BITMAP_HEADER_BYTES;
}

void bitmap_abandon(struct open_bitmap *bitmap)
{
    if (bitmap->populating) pthread_join(bitmap->populator, NULL);
    munmap((void *)bitmap->map.start, bitmap->map.n);
}

void bitmap_finish(struct open_bitmap *bitmap, const struct decoder_output *output,
                   struct reply_message *reply)
{
    bitmap_abandon(bitmap); /* a writable mapping prevents sealing */
    *reply = (struct reply_message){.status = REPLY_DONE, .value = bitmap->map.n};
    if (!sealed_memory_seal(output->fd)) decoder_reply(reply, REPLY_NO_MEMORY, "");
}
