/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes with libcrypto. */
#include "hub/etag_hash.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct etag_hash {
    EVP_MD_CTX *context;
};

bool etag_hash_open(struct etag_hash **out, const char *etag, uint64_t size, ey_err *e)
{
    char head[40];
    bool git = strlen(etag) == HUB_SHA1_HEX;
    struct etag_hash *h = calloc(1, sizeof(*h));
    *out = h;
    if (h) h->context = EVP_MD_CTX_new();
    if (!h || !h->context ||
        EVP_DigestInit_ex(h->context, git ? EVP_sha1() : EVP_sha256(), NULL) != 1) {
        etag_hash_close(out);
        return ey_fail_memory(e, "a hash function", 0);
    }
    int n = snprintf(head, sizeof(head), "blob %llu", (unsigned long long)size);
    if (git) etag_hash_add(h, head, (size_t)n + 1);
    return true;
}

void etag_hash_close(struct etag_hash **h)
{
    if (*h) EVP_MD_CTX_free((*h)->context);
    free(*h);
    *h = NULL;
}

void etag_hash_add(struct etag_hash *h, const void *bytes, size_t n)
{
    EVP_DigestUpdate(h->context, bytes, n);
}

void etag_hash_finish(struct etag_hash *h, char out[HUB_ETAG_BYTES + 1])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int n = 0;
    EVP_DigestFinal_ex(h->context, digest, &n);
    for (unsigned int i = 0; i < n && i < HUB_ETAG_BYTES / 2; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}
