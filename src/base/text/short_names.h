/* SPDX-License-Identifier: Apache-2.0 */
/* Short model names such as "qwen3-vl:4b", as Ollama uses them, and the Hugging Face repositories
 * that they stand for. */
#ifndef EY_BASE_SHORT_NAMES_H
#define EY_BASE_SHORT_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Lists the short names, for messages. */
#define SHORT_NAMES \
    "qwen3-vl:2b, :4b, :8b or :32b, each also with -thinking, or OWNER/NAME of the hub"

enum { SHORT_NAME_BYTES = 64, SHORT_NAME_REPOSITORIES = 2 };

/* Lists the repositories that FAMILY:SIZE[-VARIANT][-FORMAT] may mean, preferred first, ignoring
 * case. The default variant is Instruct, the default format FP8, then BF16. Returns their number, 0
 * if it is not a short name. */
size_t short_name_find(const char *name,
                       char repositories[SHORT_NAME_REPOSITORIES][SHORT_NAME_BYTES]);
/* Writes the shortest name of a repository. Returns false if it has none. */
bool short_name_of(char out[SHORT_NAME_BYTES], const char *repository);
/* Returns the length of a name without the tag ":latest", which Ollama's clients append. */
size_t name_without_latest(const char *name);
/* Calls `visit` with each name of a family such as "qwen3-vl", preferred first, until it returns
 * true. Returns false if it never does. Used to resolve a name without a size to an installed
 * model.
 */
bool short_name_each(const char *family, bool (*visit)(void *user, const char *name), void *user);

#endif
