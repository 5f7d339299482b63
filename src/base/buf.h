/* SPDX-License-Identifier: Apache-2.0 */
/* A growing byte buffer that is born with its maximum, and a bump arena for memory that dies
 * together. */
#ifndef EY_BASE_BUF_H
#define EY_BASE_BUF_H

#include "base/err.h"

struct buf {
    char *data; /* always NUL-terminated once something was added */
    size_t size, capacity, max;
    bool failed; /* the maximum or memory was hit: contents are gone, later calls do nothing */
};

struct buf buf_with_max(size_t max);
void buf_free(struct buf *b);
bool buf_add(struct buf *b, const void *bytes, size_t n);
bool buf_add_text(struct buf *b, const char *text);
bool buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_clear(struct buf *b);
/* As if the maximum was hit; returns false. */
bool buf_fail(struct buf *b);
/* Reserves `add` more bytes, so that adding them does not allocate. */
bool buf_reserve(struct buf *b, size_t add);

/* Memory given in pieces, freed all at once. */
struct arena {
    struct arena_chunk *chunks;
    size_t used; /* bytes handed out */
};

/* n zeroed bytes aligned to 64, or NULL when there is no memory. */
void *arena_alloc(struct arena *a, size_t n);
/* count * size, checked for overflow. */
void *arena_array(struct arena *a, size_t count, size_t size);
char *arena_copy_text(struct arena *a, const char *text, size_t n); /* adds a NUL */
void arena_free(struct arena *a);

#endif
