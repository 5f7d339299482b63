/* SPDX-License-Identifier: Apache-2.0 */
/* Bounded growing buffer and bump arena. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

struct buf buf_with_max(size_t max)
{
    return (struct buf){.max = max};
}

void ey_free(void *memory)
{
    free(memory);
}

void buf_free(struct buf *b)
{
    free(b->data);
    b->data = NULL;
    b->size = b->capacity = 0;
}

bool buf_fail(struct buf *b)
{
    buf_free(b);
    b->failed = true;
    return false;
}

bool buf_reserve(struct buf *b, size_t add)
{
    size_t need;
    if (b->failed || !checked_add(b->size, add, &need) || need > b->max) return buf_fail(b);
    if (need < b->capacity) return true;
    size_t capacity = b->capacity ? b->capacity : 64;
    while (capacity <= need)
        capacity *= 2;
    char *data = realloc(b->data, capacity);
    if (!data) return buf_fail(b);
    b->data = data;
    b->capacity = capacity;
    return true;
}

bool buf_add(struct buf *b, const void *bytes, size_t n)
{
    if (!buf_reserve(b, n)) return false;
    if (n) memcpy(b->data + b->size, bytes, n);
    b->size += n;
    b->data[b->size] = 0;
    return true;
}

bool buf_add_text(struct buf *b, const char *text)
{
    return buf_add(b, text, strlen(text));
}

bool buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0) return buf_fail(b);
    if (!buf_reserve(b, (size_t)n)) return false;
    va_start(args, fmt);
    vsnprintf(b->data + b->size, (size_t)n + 1, fmt, args);
    va_end(args);
    b->size += (size_t)n;
    return true;
}

void buf_clear(struct buf *b)
{
    b->size = 0;
    if (b->data) b->data[0] = 0;
}

struct arena_chunk {
    struct arena_chunk *next;
    void *memory; /* from calloc(); the chunk begins at its first 64-byte boundary */
    size_t size, used;
    _Alignas(64) unsigned char bytes[];
};

enum { ARENA_ALIGN = 64, ARENA_CHUNK = 64 * 1024 };

static struct arena_chunk *arena_grow(struct arena *a, size_t n)
{
    size_t size = n > ARENA_CHUNK ? n : ARENA_CHUNK, whole;
    if (!checked_add(size, sizeof(struct arena_chunk) + ARENA_ALIGN, &whole)) return NULL;
    char *memory = calloc(1, whole); /* untouched zero pages take no memory */
    if (!memory) return NULL;
    struct arena_chunk *chunk = (struct arena_chunk *)(memory + (ARENA_ALIGN -
                                                                 (uintptr_t)memory % ARENA_ALIGN) %
                                                                    ARENA_ALIGN);
    chunk->next = a->chunks;
    chunk->memory = memory;
    chunk->size = size;
    chunk->used = 0;
    a->chunks = chunk;
    return chunk;
}

void *arena_alloc(struct arena *a, size_t n)
{
    size_t rounded;
    if (!checked_add(n, ARENA_ALIGN - 1, &rounded)) return NULL;
    rounded -= rounded % ARENA_ALIGN;
    struct arena_chunk *chunk = a->chunks;
    if (!chunk || chunk->size - chunk->used < rounded) chunk = arena_grow(a, rounded);
    if (!chunk) return NULL;
    void *p = chunk->bytes + chunk->used;
    chunk->used += rounded;
    a->used += rounded;
    return p; /* still zero: no byte is handed out twice */
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
    size_t n;
    return checked_mul(count, size, &n) ? arena_alloc(a, n) : NULL;
}

char *arena_copy_text(struct arena *a, const char *text, size_t n)
{
    char *copy = n + 1 ? arena_alloc(a, n + 1) : NULL;
    if (copy && n) memcpy(copy, text, n);
    return copy;
}

void arena_free(struct arena *a)
{
    while (a->chunks) {
        struct arena_chunk *next = a->chunks->next;
        free(a->chunks->memory);
        a->chunks = next;
    }
    a->used = 0;
}
