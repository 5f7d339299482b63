/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes a file in this process like eyelet-decode: libheif and the resulting bitmap. As in the
 * server, images whose coded frames are large are left out. */
#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "image/codecs/heif_size.h"
#include "sandbox/child/libheif_decode.h"
#include "sandbox/sealed_memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((visibility("default"))) const char *__asan_default_options(void);

/* Codecs leak on damaged files (dav1d 1.0 does); eyelet-decode ends after each file. */
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

enum { MAX_PIXELS = 1 << 16, MAX_OUTPUT = 1 << 20 };

static void check_bitmap(int fd)
{
    void *map;
    size_t n;
    struct bitmap_header header;
    assert(sealed_memory_map(&map, &n, fd, MAX_OUTPUT));
    assert(bitmap_header_read(&header, map, n));
    munmap(map, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool loaded;
    struct reply_message reply = {.status = REPLY_DAMAGED};
    struct heif_size is = heif_size_of(data, size);
    if (is.coded > MAX_PIXELS || is.width > MAX_PIXELS || is.height > MAX_PIXELS ||
        is.width * is.height > MAX_PIXELS)
        return 0;
    if (!loaded) libheif_load();
    loaded = true;
    const struct decoder_output output = {sealed_memory_create("fuzz", NULL), MAX_OUTPUT};
    if (output.fd < 0) return 0;
    libheif_decode(&reply, JOB_HEIC, data, size, &output);
    if (reply.status == REPLY_DONE) check_bitmap(output.fd);
    close(output.fd);
    return 0;
}
