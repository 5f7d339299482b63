/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses among several GGUF files, by file name and by the tag that follows a repository's name
 * ("Q4_K_M"), with llama.cpp's rules. */
#ifndef EY_CHECKPOINT_GGUF_FILES_H
#define EY_CHECKPOINT_GGUF_FILES_H

#include "base/err.h"

/* Whether the name is a model's, and not that of a vision encoder (mmproj), an importance matrix, a
 * draft model, or a later part of a split model. */
bool gguf_is_model_name(const char *name);
bool gguf_is_mmproj_name(const char *name);
/* Whether `name` is a part of the split file `first`, or `first` itself. */
bool gguf_is_part_of(const char *name, const char *first);
/* Preference among vision encoder files, lowest first: BF16, F16, Q8_0, F32, others. */
int gguf_mmproj_rank(const char *name);
/* Whether the name contains the tag, ignoring case, preceded by '/', '-' or '.' and followed by '-'
 * or '.'. */
bool gguf_tag_matches(const char *name, const char *tag);
/* Writes a file name's tag: the text after the last '-' or '.' that is not inside a type's name, up
 * to the part number or ".gguf". The whole stem if there is no such separator. */
void gguf_tag_of(char *out, size_t size, const char *name);

/* Returns the index of the name that matches the tag, or without a tag Q4_K_M, else Q8_0, else the
 * first. Returns -1 if none matches. Names must be sorted. */
int gguf_choose_name(const char *const *names, int n, const char *tag);

/* Writes the path of a folder's model file to out[EY_MAX_PATH]. Without a tag (NULL), the folder
 * must have only one, or `usual` must permit choosing Q4_K_M, Q8_0 or the first. If none or several
 * match, the error lists the files. */
bool gguf_choose_file(char *out, const char *directory, const char *tag, bool usual, ey_err *e);
/* Calls `fn` with the path of each model file in a folder, sorted by name. */
bool gguf_each_file(const char *directory, bool (*fn)(void *user, const char *path), void *user);

#endif
