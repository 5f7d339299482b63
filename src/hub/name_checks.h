/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of strings from the hub before they become part of a path. */
#ifndef EY_HUB_NAME_CHECKS_H
#define EY_HUB_NAME_CHECKS_H

#include <stdbool.h>
#include <stddef.h>

enum {
    HUB_COMMIT_BYTES = 40,
    HUB_ETAG_BYTES = 64,
    HUB_FILE_NAME_BYTES = 200,
    HUB_SHA1_HEX = 40,
    HUB_SHA256_HEX = 64
};

/* Whether the text is a commit: 40 lower-case hexadecimal digits. */
bool is_commit_hash(const char *text);
/* Whether the text is a hash in lower-case hexadecimal: SHA-256, or git's SHA-1. */
bool is_etag_hash(const char *text);
/* Returns whether the text is a plain file name: letters, digits, '-', '_' and '.', without ".."
 * and without a '.' or '-' in front. */
bool is_safe_file_name(const char *text);
/* Returns whether the hub allows the name for a repository. Each part has the characters of
 * is_safe_file_name(); the whole name has at most 96 characters and no "--". */
bool is_hub_repo_name(const char *name);
/* Unquotes an ETag: `"x"` and `W/"x"` become x. Returns false if it does not fit `size` bytes. */
bool etag_unquote(char *out, size_t size, const char *etag);

#endif
