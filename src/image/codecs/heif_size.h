/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds the cost of decoding a HEIC or AVIF file. It is computed from the headers of the coded
 * frames, because the sizes in other headers may be wrong. */
#ifndef EY_IMAGE_HEIF_SIZE_H
#define EY_IMAGE_HEIF_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heif_size {
    uint64_t width, height; /* of the image, as its ispe property or its grid claims */
    uint64_t coded;         /* pixels of all frames to be decoded */
    uint64_t largest;       /* pixels of the largest frame */
    bool deep;              /* more than 8 bits per sample */
    bool full_chroma;       /* 4:2:2 or 4:4:4 */
    bool alpha;
    bool too_many; /* too many frames or table entries; the scan stopped early */
};

/* Members that the file does not specify are 0. Reads only file[n] and allocates nothing. */
struct heif_size heif_size_of(const uint8_t *file, size_t n);

#endif
