/* SPDX-License-Identifier: Apache-2.0 */
/* Which of several GGUF files is meant: names of files and the tags that people write behind a
 * repository's name ("Q4_K_M"), by llama.cpp's rules. */
#ifndef EY_CHECKPOINT_GGUF_FILES_H
#define EY_CHECKPOINT_GGUF_FILES_H

#include "base/err.h"

/* Whether it is a model's, not a vision encoder's (mmproj), a calibration's, a drafter's; of a
 * split one only the first part is. */
bool gguf_is_model_name(const char *name);
bool gguf_is_mmproj_name(const char *name);
/* The later part of a split file, or the first. */
bool gguf_is_part_of(const char *name, const char *first);
/* The less, the rather a vision encoder's file is taken: BF16, F16, Q8_0, F32, others. */
int gguf_mmproj_rank(const char *name);
/* Whether the tag, in any case, stands in the name between '/', '-' or '.' and '-' or '.'. */
bool gguf_tag_matches(const char *name, const char *tag);
/* What a file is tagged with: what stands before ".gguf" and the number of its part, from the last
 * '-' or '.' on that is not within a type's name; the whole without one. */
void gguf_tag_of(char *out, size_t size, const char *name);

/* Which of n names is meant: by the tag, else Q4_K_M, Q8_0 or the first; -1: none. Names ascend. */
int gguf_choose_name(const char *const *names, int n, const char *tag);

/* Writes the path of the model's file in a folder to out[EY_MAX_PATH]. `tag`: NULL: whichever; only
 * one must be there then, unless `usual` is allowed: Q4_K_M, Q8_0 or the first. False with a
 * message that lists them: none is, or which is not clear. */
bool gguf_choose_file(char *out, const char *directory, const char *tag, bool usual, ey_err *e);
/* Calls `fn` with the path of each model's file in a folder, in order of their names. */
bool gguf_each_file(const char *directory, bool (*fn)(void *user, const char *path), void *user);

#endif
