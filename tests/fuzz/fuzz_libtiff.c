/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes a TIFF in this process like eyelet-decode: eyelet's reader of directories, libtiff and
 * the resulting bitmap. As in the server, images whose directories say that they are large are left
 * out. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "image/codecs/tiff_pages.h"
#include "sandbox/child/libtiff_decode.h"
#include "sandbox/sealed_memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_PIXELS = 1 << 16, MAX_TILE = 1 << 16, MAX_BITS = 256, MAX_OUTPUT = 1 << 20 };

static void check_tiff_bitmap(int fd)
{
    void *map;
    size_t n;
    struct bitmap_header header;
    assert(sealed_memory_map(&map, &n, fd, MAX_OUTPUT));
    assert(bitmap_header_read(&header, map, n));
    munmap(map, n);
}

/* Pages are still found after any of them was put first. */
static void check_pages(const uint8_t *data, size_t size)
{
    uint64_t directory[4];
    struct tiff_page page;
    size_t n = tiff_find_pages(directory, 4, data, size);
    uint8_t *copy = malloc(size);
    for (size_t i = 0; copy && i < n && i < 4; i++) {
        memcpy(copy, data, size);
        tiff_put_page_first(copy, directory[i]);
        tiff_read_first_page(&page, copy, size);
        assert(tiff_find_pages(NULL, 0, copy, size) > 0);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool loaded;
    struct tiff_page page;
    struct reply_message reply = {.status = REPLY_DAMAGED};
    check_pages(data, size);
    if (!tiff_read_first_page(&page, data, size) || page.width > MAX_PIXELS ||
        page.height > MAX_PIXELS || page.width * page.height > MAX_PIXELS ||
        page.tile_width > MAX_TILE || page.tile_height > MAX_TILE ||
        page.tile_width * page.tile_height > MAX_PIXELS || page.bits_per_pixel > MAX_BITS)
        return 0;
    if (!loaded) libtiff_load();
    loaded = true;
    const struct decoder_output output = {sealed_memory_create("fuzz", NULL), MAX_OUTPUT};
    if (output.fd < 0) return 0;
    libtiff_decode(&reply, data, size, &output);
    if (reply.status == REPLY_DONE) check_tiff_bitmap(output.fd);
    close(output.fd);
    return 0;
}
