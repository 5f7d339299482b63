/* SPDX-License-Identifier: Apache-2.0 */
/* What decoding a HEIC or AVIF file takes, from its boxes and the headers of its coded frames,
 * which say it whatever the file's other headers claim. */
#ifndef EY_IMAGE_HEIF_SIZE_H
#define EY_IMAGE_HEIF_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heif_size {
    uint64_t width, height; /* of the image, as its own header (or its grid's) says */
    uint64_t coded;         /* pixels of all frames that are decoded for it */
    uint64_t largest;       /* of one of them */
    bool deep;              /* more than 8 bits */
    bool full_chroma;       /* 4:2:2 or 4:4:4 */
    bool alpha;
    bool too_many; /* frames, or boxes: it was not looked at to its end */
};

/* Zeros for what cannot be found. Never reads beyond the file, takes no memory. */
struct heif_size heif_size_of(const uint8_t *file, size_t n);

#endif
