/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses one of several GGUF files by its name and by the tag that follows a repository's name
 * ("Q4_K_M"). The rules are llama.cpp's. */
#ifndef EY_CHECKPOINT_GGUF_FILES_H
#define EY_CHECKPOINT_GGUF_FILES_H

#include "base/err.h"

/* Returns whether a file name is that of a model. Vision encoders (mmproj), importance matrices,
 * draft models and all but the first part of a split model are not models. */
bool gguf_is_model_name(const char *name);
bool gguf_is_mmproj_name(const char *name);
/* Returns whether `name` is a part of the split model whose first part is `first`, or `first`
 * itself. */
bool gguf_is_part_of(const char *name, const char *first);
/* Ranks the name of a vision encoder's file. The lowest rank is preferred: 0 for BF16, then F16,
 * Q8_0, F32, and 4 for others. */
int gguf_mmproj_rank(const char *name);
/* Returns whether the name contains the tag, ignoring case. A '/', '-', '.' or the start of the
 * name must precede it, and a '-' or '.' must follow. */
bool gguf_tag_matches(const char *name, const char *tag);
/* Writes the tag of a file name: the text between the last '-' or '.' and the part number or
 * ".gguf". "UD-Q4_K_XL" counts as one tag. A name without a separator is its own tag. */
void gguf_tag_of(char *out, size_t size, const char *name);

/* Returns the index of the first name that matches the tag, or -1. Without a tag (NULL), prefers
 * Q4_K_M, then Q8_0, then the first name. Names must be sorted. */
int gguf_choose_name(const char *const *names, int n, const char *tag);

/* Writes the path of a folder's model file to out[EY_MAX_PATH]. Without a tag (NULL), a folder with
 * several models is an error unless `usual` is set: gguf_choose_name() then chooses. The error
 * lists the tags in the folder. */
bool gguf_choose_file(char *out, const char *directory, const char *tag, bool usual, ey_err *e);
/* Calls `fn` with the path of each model file in a folder, sorted by name. Stops and returns false
 * when `fn` returns false. */
bool gguf_each_file(const char *directory, bool (*fn)(void *user, const char *path), void *user);

#endif
