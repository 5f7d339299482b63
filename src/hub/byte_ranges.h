/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a file that are present: sorted, disjoint, non-adjacent ranges. */
#ifndef EY_HUB_BYTE_RANGES_H
#define EY_HUB_BYTE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_BYTE_RANGES = 256 };

struct byte_ranges {
    struct {
        uint64_t begin, end;
    } item[MAX_BYTE_RANGES];
    size_t n;
};

/* Adds a range. Returns false and adds nothing if there are too many ranges. */
bool byte_ranges_add(struct byte_ranges *x, uint64_t begin, uint64_t end);
/* Finds the first missing range below `size`. Returns false if none is missing. */
bool byte_ranges_first_gap(const struct byte_ranges *x, uint64_t size, uint64_t *begin,
                           uint64_t *end);
uint64_t byte_ranges_total(const struct byte_ranges *x);
/* Length of the contiguous beginning. */
uint64_t byte_ranges_prefix(const struct byte_ranges *x);

/* Converts ranges to and from text: "eyelet 1 SIZE", then a line "BEGIN END" for each. Writing
 * returns the length of the text, which is less than BYTE_RANGES_TEXT_BYTES. Reading accepts only
 * text that was written for a file of this size. */
enum { BYTE_RANGES_TEXT_BYTES = 64 + MAX_BYTE_RANGES * 44 };
size_t byte_ranges_write(const struct byte_ranges *x, uint64_t size,
                         char text[BYTE_RANGES_TEXT_BYTES]);
bool byte_ranges_read(struct byte_ranges *x, uint64_t size, const char *text);

#endif
