/* SPDX-License-Identifier: Apache-2.0 */
/* The hub's door: the first byte says which of its readers gets the rest. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hub/extents.h"
#include "hub/reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_headers(const char *text, size_t n)
{
    static struct reply r;
    struct hub_file file = {.name = "x"};
    uint64_t begin, end, total;
    r = (struct reply){0};
    for (size_t i = 0; i < n;) {
        const char *line_end = memchr(text + i, '\n', n - i);
        size_t length = line_end ? (size_t)(line_end - text) - i + 1 : n - i;
        reply_header(&r, text + i, length);
        i += length;
    }
    if (reply_metadata(&r, "0123456789abcdef0123456789abcdef01234567", &file, NULL))
        assert(is_hash(file.etag) && !strchr(file.etag, '/'));
    if (reply_range(&r, &begin, &end, &total)) assert(begin < end && end <= total);
    double wait = reply_wait(&r, 1);
    assert(wait >= 0 && wait <= 60);
}

static void read_shards(const char *text, size_t n)
{
    struct shard_names names;
    if (!shard_names_read(&names, text, n, NULL)) return;
    for (size_t i = 0; i < names.n; i++)
        assert(!strchr(names.item[i], '/') && names.item[i][0] != '.');
    shard_names_free(&names);
}

static void read_listing(const char *text, size_t n)
{
    struct listing listing;
    if (!listing_read(&listing, text, n, NULL)) return;
    assert(strlen(listing.commit) == HUB_COMMIT_BYTES && !strchr(listing.commit, '/'));
    listing_has(&listing, "config.json");
    listing_free(&listing);
}

static void read_record(const char *text)
{
    struct extents x;
    char again[EXTENTS_TEXT];
    const uint64_t size = 1000;
    if (extents_read(&x, size, text))
        assert(extents_write(&x, size, again) < EXTENTS_TEXT && extents_bytes(&x) <= size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    char *text = malloc(size); /* of its own, so that reading past it is seen */
    if (!text) return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    switch (data[0]) {
    case 'h': read_headers(text, size - 1); break;
    case 'l': read_listing(text, size - 1); break;
    case 's': read_shards(text, size - 1); break;
    default: read_record(text);
    }
    free(text);
    return 0;
}
