/* SPDX-License-Identifier: Apache-2.0 */
/* Byte ranges, and their text form, which is the record of an incomplete file. */
#include "hub/byte_ranges.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool byte_ranges_add(struct byte_ranges *x, uint64_t begin, uint64_t end)
{
    size_t first = 0, past;
    if (begin >= end) return true;
    while (first < x->n && x->item[first].end < begin)
        first++;
    for (past = first; past < x->n && x->item[past].begin <= end; past++) {
        if (x->item[past].begin < begin) begin = x->item[past].begin;
        if (x->item[past].end > end) end = x->item[past].end;
    }
    if (past == first && x->n == MAX_BYTE_RANGES) return false;
    memmove(&x->item[first + 1], &x->item[past], (x->n - past) * sizeof(x->item[0]));
    x->n += first + 1 - past;
    x->item[first].begin = begin;
    x->item[first].end = end;
    return true;
}

bool byte_ranges_first_gap(const struct byte_ranges *x, uint64_t size, uint64_t *begin,
                           uint64_t *end)
{
    uint64_t prefix = byte_ranges_prefix(x);
    size_t next = prefix ? 1 : 0;
    *begin = prefix;
    *end = next < x->n ? x->item[next].begin : size;
    return prefix < size;
}

uint64_t byte_ranges_total(const struct byte_ranges *x)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < x->n; i++)
        bytes += x->item[i].end - x->item[i].begin;
    return bytes;
}

uint64_t byte_ranges_prefix(const struct byte_ranges *x)
{
    return x->n && !x->item[0].begin ? x->item[0].end : 0;
}

size_t byte_ranges_write(const struct byte_ranges *x, uint64_t size,
                         char text[BYTE_RANGES_TEXT_BYTES])
{
    int n = snprintf(text, BYTE_RANGES_TEXT_BYTES, "eyelet 1 %" PRIu64 "\n", size);
    for (size_t i = 0; i < x->n; i++)
        n += snprintf(text + n, BYTE_RANGES_TEXT_BYTES - (size_t)n, "%" PRIu64 " %" PRIu64 "\n",
                      x->item[i].begin, x->item[i].end);
    return (size_t)n;
}

static bool read_range_number(const char **at, char after, uint64_t *out)
{
    enum { MOST_DIGITS = 18 };
    size_t n = strspn(*at, "0123456789");
    if (!n || n > MOST_DIGITS || (*at)[n] != after) return false;
    *out = strtoull(*at, NULL, 10);
    *at += n + 1;
    return true;
}

bool byte_ranges_read(struct byte_ranges *x, uint64_t size, const char *text)
{
    static const char head[] = "eyelet 1 ";
    uint64_t begin, end, past = 0, given;
    *x = (struct byte_ranges){0};
    if (strncmp(text, head, strlen(head)) != 0) return false;
    text += strlen(head);
    if (!read_range_number(&text, '\n', &given) || given != size) return false;
    while (*text) {
        bool ok = x->n < MAX_BYTE_RANGES && read_range_number(&text, ' ', &begin) &&
                  read_range_number(&text, '\n', &end) && begin < end && end <= size &&
                  (!x->n || begin > past);
        if (!ok) return *x = (struct byte_ranges){0}, false;
        x->item[x->n].begin = begin;
        x->item[x->n++].end = past = end;
    }
    return true;
}
