/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 without heap allocations, for cache keys. A collision would show one user's image to
 * another, so a weaker hash won't do. */
#ifndef EY_ENGINE_DIGEST_H
#define EY_ENGINE_DIGEST_H

#include "base/err.h"
#include "image/image.h"

enum { DIGEST_BYTES = 32 };

struct digest {
    uint8_t byte[DIGEST_BYTES];
};

/* State of the hash function, allocated once. */
struct hasher;
bool hasher_open(struct hasher **h, ey_err *e);
void hasher_close(struct hasher **h);
void hasher_start(struct hasher *h);
void hasher_add(struct hasher *h, const void *bytes, size_t n);
struct digest hasher_end(struct hasher *h);

/* Returns the digest of an image's pixels and size: 2x3 and 3x2 pixels may be the same bytes. */
struct digest image_digest(const struct image *image);
/* Returns the digest of a file and of the size that its image is scaled to. */
struct digest image_file_digest(const void *file, size_t n, int width, int height);

#endif
