/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 by libcrypto's deprecated functions: EVP and the SHA256() of OpenSSL 3 allocate memory
 * for each digest, and so can fail. */
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

/* Returns the digest of bytes and of a few numbers that belong to them. */
static struct digest digest_of(const void *bytes, size_t n, const int32_t *number, size_t n_numbers)
{
    struct hasher h;
    hasher_start(&h);
    hasher_add(&h, bytes, n);
    const struct digest of_bytes = hasher_end(&h);
    hasher_start(&h);
    hasher_add(&h, of_bytes.byte, DIGEST_BYTES);
    hasher_add(&h, number, n_numbers * sizeof(*number));
    return hasher_end(&h);
}

struct digest image_digest(const struct image *image)
{
    const int32_t size[] = {image->width, image->height};
    return digest_of(image->rgb, (size_t)image->width * (size_t)image->height * 3, size, 2);
}

struct digest image_file_digest(const void *file, size_t n, int width, int height)
{
    const int32_t size[] = {width, height,
                            1}; /* a third number, so that no key equals one of image_digest() */
    return digest_of(file, n, size, 3);
}
