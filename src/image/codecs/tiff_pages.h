/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a TIFF file's directories without libtiff: the number of pages, their offsets, and their
 * sizes before they are decoded. */
#ifndef EY_IMAGE_TIFF_PAGES_H
#define EY_IMAGE_TIFF_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tiff_page {
    uint64_t directory; /* file offset */
    uint64_t width, height, bits_per_pixel;
    uint64_t strip_rows, tile_width, tile_height; /* tile sizes are 0 for strips */
    int orientation;                              /* 1..8 */
    bool alpha;
};

/* Whether the bytes begin like a TIFF or BigTIFF file. */
bool tiff_is(const uint8_t *bytes, size_t n);
/* Reads the first directory's page. Returns false if there is none or it has no size. */
bool tiff_read_first_page(struct tiff_page *out, const uint8_t *bytes, size_t n);
/* Writes the offsets of the directories of pages, but not more than `most`. Returns the number of
 * all pages, which may be larger. Thumbnails and masks are not pages. */
size_t tiff_find_pages(uint64_t *directories, size_t most, const uint8_t *bytes, size_t n);
/* Patches the file header so that the page at `directory` comes first. */
void tiff_put_page_first(uint8_t *bytes, uint64_t directory);

#endif
