/* SPDX-License-Identifier: Apache-2.0 */
/* Parsers of the hub's data; the first byte selects the parser. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hub/byte_ranges.h"
#include "hub/hub_response.h"
#include "hub/name_checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_headers(const char *text, size_t n)
{
    static struct hub_response r;
    struct hub_file file = {.name = "x"};
    uint64_t begin, end, total;
    r = (struct hub_response){0};
    for (size_t i = 0; i < n;) {
        const char *line_end = memchr(text + i, '\n', n - i);
        size_t length = line_end ? (size_t)(line_end - text) - i + 1 : n - i;
        hub_response_header(&r, text + i, length);
        i += length;
    }
    if (hub_response_metadata(&r, "0123456789abcdef0123456789abcdef01234567", &file, NULL))
        assert(is_etag_hash(file.etag) && !strchr(file.etag, '/'));
    if (hub_response_range(&r, &begin, &end, &total)) assert(begin < end && end <= total);
    double wait = hub_response_retry_after(&r, 1);
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
    struct repo_listing listing;
    if (!repo_listing_read(&listing, text, n, NULL)) return;
    assert(strlen(listing.commit) == HUB_COMMIT_BYTES && !strchr(listing.commit, '/'));
    repo_listing_has(&listing, "config.json");
    repo_listing_free(&listing);
}

static void read_record(const char *text)
{
    struct byte_ranges x;
    char again[BYTE_RANGES_TEXT_BYTES];
    const uint64_t size = 1000;
    if (byte_ranges_read(&x, size, text))
        assert(byte_ranges_write(&x, size, again) < BYTE_RANGES_TEXT_BYTES &&
               byte_ranges_total(&x) <= size);
}

/* An accepted name cannot leave the folder that it is appended to. */
static void read_names(const char *text)
{
    char hash[HUB_ETAG_BYTES + 1];
    if (is_safe_file_name(text))
        assert(text[0] != '.' && text[0] != '-' && !strpbrk(text, "/\\") && !strstr(text, ".."));
    if (is_hub_repo_name(text))
        assert(text[0] != '/' && text[0] != '.' && !strstr(text, "..") && !strstr(text, "/."));
    if (is_commit_hash(text)) assert(strlen(text) == HUB_COMMIT_BYTES && is_etag_hash(text));
    if (etag_unquote(hash, HUB_ETAG_BYTES, text)) assert(strlen(hash) <= HUB_ETAG_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    /* a block of this size, so that a sanitizer sees reads past its end */
    char *text = malloc(size);
    if (!text) return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    switch (data[0]) {
    case 'h': read_headers(text, size - 1); break;
    case 'l': read_listing(text, size - 1); break;
    case 'n': read_names(text); break;
    case 's': read_shards(text, size - 1); break;
    default: read_record(text);
    }
    free(text);
    return 0;
}
