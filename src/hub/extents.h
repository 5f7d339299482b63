/* SPDX-License-Identifier: Apache-2.0 */
/* Which bytes of a file are there: stretches in order, none touching the next. */
#ifndef EY_HUB_EXTENTS_H
#define EY_HUB_EXTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_EXTENTS = 256 };

struct extents {
    struct {
        uint64_t begin, end;
    } item[MAX_EXTENTS];
    size_t n;
};

/* False: there are too many stretches; nothing was added. */
bool extents_add(struct extents *x, uint64_t begin, uint64_t end);
/* The first stretch that is not there, below `size`; false: all is. */
bool extents_gap(const struct extents *x, uint64_t size, uint64_t *begin, uint64_t *end);
uint64_t extents_bytes(const struct extents *x);
/* How far everything is there from the beginning. */
uint64_t extents_prefix(const struct extents *x);

/* As text: "eyelet 1 SIZE", then "BEGIN END" a line. Writing returns the length, less than `room`;
 * reading takes nothing but what writing made for a file of this size. */
enum { EXTENTS_TEXT = 64 + MAX_EXTENTS * 44 };
size_t extents_write(const struct extents *x, uint64_t size, char text[EXTENTS_TEXT]);
bool extents_read(struct extents *x, uint64_t size, const char *text);

#endif
