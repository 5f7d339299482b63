/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 by libcrypto, through the old functions: EVP's, and SHA256() of
 * OpenSSL 3, take memory from the heap for each digest, and give none where it is refused. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "engine/cache/digest.h"

#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

struct hasher {
    SHA256_CTX context;
};

bool hasher_open(struct hasher **out, ey_err *e)
{
    *out = calloc(1, sizeof(**out));
    return *out || ey_fail_memory(e, "a hash function", sizeof(**out));
}

void hasher_close(struct hasher **h)
{
    free(*h);
    *h = NULL;
}

void hasher_start(struct hasher *h)
{
    SHA256_Init(&h->context);
}

void hasher_add(struct hasher *h, const void *bytes, size_t n)
{
    SHA256_Update(&h->context, bytes, n);
}

struct digest hasher_end(struct hasher *h)
{
    struct digest out;
    SHA256_Final(out.byte, &h->context);
    return out;
}

struct digest image_digest(const struct image *image)
{
    struct hasher h;
    uint8_t pixels_and_size[DIGEST_BYTES + 8];
    const int32_t size[2] = {image->width, image->height};
    hasher_start(&h);
    hasher_add(&h, image->rgb, (size_t)image->width * (size_t)image->height * 3);
    const struct digest pixels = hasher_end(&h);
    memcpy(pixels_and_size, pixels.byte, DIGEST_BYTES);
    memcpy(pixels_and_size + DIGEST_BYTES, size, sizeof(size));
    hasher_start(&h);
    hasher_add(&h, pixels_and_size, sizeof(pixels_and_size));
    return hasher_end(&h);
}
