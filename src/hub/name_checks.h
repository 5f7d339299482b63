/* SPDX-License-Identifier: Apache-2.0 */
/* What the hub says that becomes part of a path, and what of it may. */
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

/* 40 lower-case hexadecimal digits. */
bool is_commit_hash(const char *text);
/* A hash in lower-case hexadecimal: SHA-256 of a file's bytes, or SHA-1 as git has it. */
bool is_etag_hash(const char *text);
/* A file of the repository's own folder: letters, digits, '-', '_' and '.', no '.' or '-' first, no
 * "..". */
bool is_safe_file_name(const char *text);
/* As the hub allows them: is_safe_file_name()'s letters in each part, at most 96 in total, no "--".
 */
bool is_hub_repo_name(const char *name);
/* `"x"` and `W/"x"` are x. Writes at most `size` bytes; false: it is longer. */
bool etag_unquote(char *out, size_t size, const char *etag);

#endif
