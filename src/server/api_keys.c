/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes API keys and wipes the memory that held them. */
#define OPENSSL_SUPPRESS_DEPRECATED /* SHA256() may fail to allocate, the deprecated functions \
                                       cannot */
#include "server/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/limits.h"

enum { MAX_KEY_FILE_BYTES = 1 << 20 };

/* Overwrites stack memory where called functions may have left parts of a key: strpbrk() copies up
 * to 16 bytes there. */
static __attribute__((noinline)) void wipe_stack(void)
{
    char below[16 << 10];
    explicit_bzero(below, sizeof(below));
}

static void digest_of_key(unsigned char out[SHA256_DIGEST_LENGTH], const char *key, size_t n)
{
    SHA256_CTX context;
    SHA256_Init(&context);
    SHA256_Update(&context, key, n);
    SHA256_Final(out, &context);
    explicit_bzero(&context, sizeof(context));
}

static bool add_digest(struct api_keys *keys, const char *key, ey_err *e)
{
    size_t n = strlen(key);
    if (keys->n == SERVER_MAX_KEYS)
        return ey_fail(e, EY_BAD_REQUEST, "more than %d API keys", SERVER_MAX_KEYS);
    if (!n || n > EY_MAX_API_KEY_BYTES || strpbrk(key, " \t\r\n"))
        return ey_fail(e, EY_BAD_REQUEST,
                       "API key %zu is empty, is longer than %d bytes or has blanks", keys->n + 1,
                       EY_MAX_API_KEY_BYTES);
    digest_of_key(keys->digest[keys->n++], key, n);
    return true;
}

bool api_keys_add(struct api_keys *keys, const char *key, ey_err *e)
{
    bool ok = add_digest(keys, key, e);
    wipe_stack();
    return ok;
}

static bool add_lines(struct api_keys *keys, char *text, const char *path, ey_err *e)
{
    const size_t before = keys->n;
    for (char *rest = text, *key; (key = strsep(&rest, "\r\n"));)
        if (key[0] && !api_keys_add(keys, key, e)) return ey_fail_within(e, "%s", path);
    return keys->n > before ||
           ey_fail(e, EY_BAD_REQUEST, "%s: the file has no key; write one key per line", path);
}

bool api_keys_add_file(struct api_keys *keys, const char *path, ey_err *e)
{
    char *text;
    size_t n;
    if (!file_read(&text, &n, path, MAX_KEY_FILE_BYTES, e)) return false;
    bool ok = strlen(text) == n ? add_lines(keys, text, path, e)
                                : ey_fail(e, EY_BAD_REQUEST, "%s: the file has a NUL byte", path);
    explicit_bzero(text, n);
    free(text);
    return ok;
}

static size_t trimmed_length(const char *text)
{
    size_t n = strlen(text);
    while (n && strchr(" \t", text[n - 1]))
        n--;
    return n;
}

bool api_keys_accept(const struct api_keys *keys, const char *authorization)
{
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0) return false;
    return api_keys_accept_key(keys, authorization + 7 + strspn(authorization + 7, " "));
}

bool api_keys_accept_key(const struct api_keys *keys, const char *key)
{
    unsigned char digest[32];
    int found = 0;
    if (!key) return false;
    digest_of_key(digest, key, trimmed_length(key));
    for (size_t i = 0; i < keys->n; i++)
        found |= CRYPTO_memcmp(digest, keys->digest[i], sizeof(digest)) == 0;
    return found;
}
