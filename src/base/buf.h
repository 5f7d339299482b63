/* SPDX-License-Identifier: Apache-2.0 */
/* A growable byte buffer with a fixed maximum size, and a bump arena. */
#ifndef EY_BASE_BUF_H
#define EY_BASE_BUF_H

#include "base/err.h"

struct buf {
    char *data; /* NUL-terminated after the first append */
    size_t size, capacity, max;
    bool failed; /* max was exceeded or an allocation failed: the contents are freed, and later
                    calls do nothing */
};

struct buf buf_with_max(size_t max);
void buf_free(struct buf *b);
bool buf_add(struct buf *b, const void *bytes, size_t n);
bool buf_add_text(struct buf *b, const char *text);
bool buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_clear(struct buf *b);
/* Sets `failed` and frees the contents. Returns false. */
bool buf_fail(struct buf *b);
/* Makes room for `add` more bytes, so that appending them does not allocate. */
bool buf_reserve(struct buf *b, size_t add);

/* Allocations that are freed together. */
struct arena {
    struct arena_chunk *chunks;
    size_t used; /* bytes handed out */
};

/* Returns n zeroed bytes aligned to 64, or NULL if out of memory. */
void *arena_alloc(struct arena *a, size_t n);
/* Like arena_alloc(count * size); returns NULL if the product overflows. */
void *arena_array(struct arena *a, size_t count, size_t size);
/* Copies text[n] and appends a NUL. */
char *arena_copy_text(struct arena *a, const char *text, size_t n);
void arena_free(struct arena *a);

#endif
