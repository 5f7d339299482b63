/* SPDX-License-Identifier: Apache-2.0 */
/* Small trees of files in a temporary directory, for tests of what reads directories. */
#ifndef EY_TESTS_CHECKPOINT_TEMP_DIR_H
#define EY_TESTS_CHECKPOINT_TEMP_DIR_H

#include <stdbool.h>
#include <stddef.h>

/* A new empty directory; the path lives until the next call. */
const char *temp_dir_make(void);
/* One that is removed when the program ends; for one caller in a program. */
const char *temp_dir_until_exit(void);
/* Removes it and all below; links are not followed. */
void temp_dir_remove(const char *dir);
/* dir/relative, in one of a few static buffers. */
const char *temp_path(const char *dir, const char *relative);
/* Writes a file and makes the directories above it. */
void temp_file(const char *dir, const char *relative, const void *bytes, size_t n);
void temp_text(const char *dir, const char *relative, const char *text);
void temp_link(const char *dir, const char *relative, const char *target);
/* A safetensors file of this header and n bytes of data, all 7. */
void temp_safetensors(const char *dir, const char *relative, const char *header, size_t n);

#endif
