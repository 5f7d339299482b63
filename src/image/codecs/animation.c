/* SPDX-License-Identifier: Apache-2.0 */
/* Detects animated GIF and WebP, of which only the first frame is decoded. */
#include <string.h>

#include "image/image.h"

/* Skips a chain of length-prefixed blocks that ends with an empty one. */
static size_t skip_gif_blocks(const uint8_t *bytes, size_t n, size_t at)
{
    while (at < n && bytes[at])
        at += 1 + (size_t)bytes[at];
    return at + 1;
}

static size_t gif_table_bytes(uint8_t flags)
{
    return flags & 0x80 ? (size_t)3 << ((flags & 7) + 1) : 0;
}

static bool gif_moves(const uint8_t *bytes, size_t n)
{
    enum { HEADER = 13, EXTENSION = 0x21, FRAME = 0x2c, FRAME_HEADER = 10 };
    if (n < HEADER) return false;
    size_t at = HEADER + gif_table_bytes(bytes[10]);
    for (int frames = 0; at < n;) {
        if (bytes[at] == EXTENSION) {
            at = skip_gif_blocks(bytes, n, at + 2);
        } else if (bytes[at] == FRAME && n - at >= FRAME_HEADER) {
            if (++frames == 2) return true;
            at = skip_gif_blocks(bytes, n, at + FRAME_HEADER + gif_table_bytes(bytes[at + 9]) + 1);
        } else {
            return false;
        }
    }
    return false;
}

static bool webp_moves(const uint8_t *bytes, size_t n)
{
    enum { ANIMATION_FLAG = 2 };
    return n > 20 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBPVP8X", 8) == 0 &&
           bytes[20] & ANIMATION_FLAG;
}

bool image_is_animated(const void *bytes, size_t n)
{
    bool gif = n >= 6 && memcmp(bytes, "GIF8", 4) == 0;
    return gif ? gif_moves(bytes, n) : webp_moves(bytes, n);
}
