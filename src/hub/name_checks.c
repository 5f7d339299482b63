/* SPDX-License-Identifier: Apache-2.0 */
/* Checks names, ETags and commits from the network before they become paths. */
#include "hub/name_checks.h"

#include <string.h>

static const char name_letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";

static bool is_hex(const char *text, size_t n)
{
    return strlen(text) == n && strspn(text, "0123456789abcdef") == n;
}

bool is_commit_hash(const char *text)
{
    return is_hex(text, HUB_COMMIT_BYTES);
}

bool is_etag_hash(const char *text)
{
    return is_hex(text, HUB_SHA1_HEX) || is_hex(text, HUB_SHA256_HEX);
}

bool is_safe_file_name(const char *text)
{
    size_t n = strlen(text);
    return n && n <= HUB_FILE_NAME_BYTES && text[0] != '.' && text[0] != '-' &&
           strspn(text, name_letters) == n && !strstr(text, "..");
}

bool is_hub_repo_name(const char *name)
{
    enum { MOST = 96 };
    const char *slash = strchr(name, '/');
    size_t n = strlen(name), owner = slash ? (size_t)(slash - name) : 0;
    if (!n || n > MOST || strstr(name, "--") || strstr(name, "..") ||
        strspn(name, name_letters) < owner)
        return false;
    const char *own = slash ? slash + 1 : name;
    return (!slash || (owner && !strchr(".-", name[0]))) && own[0] && !strchr(".-", own[0]) &&
           strspn(own, name_letters) == strlen(own);
}

bool etag_unquote(char *out, size_t size, const char *etag)
{
    if (strncmp(etag, "W/", 2) == 0) etag += 2;
    size_t n = strlen(etag);
    if (n >= 2 && etag[0] == '"' && etag[n - 1] == '"') {
        etag++;
        n -= 2;
    }
    if (n >= size) return false;
    memcpy(out, etag, n);
    out[n] = 0;
    return true;
}
