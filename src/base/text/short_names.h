/* SPDX-License-Identifier: Apache-2.0 */
/* Short names of models, "qwen3-vl:4b", as Ollama's users write them, and the repositories of
 * Hugging Face that they mean. */
#ifndef EY_BASE_SHORT_NAMES_H
#define EY_BASE_SHORT_NAMES_H

#include <stdbool.h>
#include <stddef.h>

enum { SHORT_NAME_BYTES = 64, SHORT_NAME_REPOSITORIES = 2 };

/* The repositories that a name may mean, the one to prefer first; 0: it is no short name. Without
 * regard to case. FAMILY:SIZE[-VARIANT][-FORMAT]; no variant is Instruct, no format FP8 first, then
 * BF16. */
size_t short_name_find(const char *name,
                       char repositories[SHORT_NAME_REPOSITORIES][SHORT_NAME_BYTES]);
/* The shortest name that means a repository; false: it has none. */
bool short_name_of(char out[SHORT_NAME_BYTES], const char *repository);
/* Names of a family without a size, "qwen3-vl", mean what is there: calls `visit` with each name
 * of the family, the one to prefer first, until it returns true. False: it never did. */
bool short_name_each(const char *family, bool (*visit)(void *user, const char *name), void *user);

#endif
