/* SPDX-License-Identifier: Apache-2.0 */
/* What a TIFF file's directories say of its pages, read without libtiff: how large they are before
 * they are decoded, how many there are, where each begins. */
#ifndef EY_IMAGE_TIFF_PAGES_H
#define EY_IMAGE_TIFF_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tiff_page {
    uint64_t directory; /* where it is in the file */
    uint64_t width, height, bits_per_pixel;
    uint64_t strip_rows, tile_width, tile_height; /* tiles: 0 where there are strips */
    int orientation;                              /* 1..8 */
    bool alpha;
};

/* The bytes begin as a TIFF or BigTIFF file does. */
bool tiff_is(const uint8_t *bytes, size_t n);
/* The first directory's page; false: there is none, or it says no size. */
bool tiff_read_first_page(struct tiff_page *out, const uint8_t *bytes, size_t n);
/* Where the directories of its pages are, at most `most` of them; thumbnails and masks are no
 * pages. Returns how many there are. */
size_t tiff_find_pages(uint64_t *directories, size_t most, const uint8_t *bytes, size_t n);
/* Makes a copy of the file begin with the page whose directory is given. */
void tiff_put_page_first(uint8_t *bytes, uint64_t directory);

#endif
