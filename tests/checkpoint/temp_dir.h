/* SPDX-License-Identifier: Apache-2.0 */
/* Small file trees in a temporary directory. */
#ifndef EY_TESTS_CHECKPOINT_TEMP_DIR_H
#define EY_TESTS_CHECKPOINT_TEMP_DIR_H

#include <stdbool.h>
#include <stddef.h>

/* Creates an empty directory. The path is valid until the next call. */
const char *temp_dir_make(void);
/* Creates a directory that is removed at exit; call it once in a program. */
const char *temp_dir_until_exit(void);
/* Removes the tree; links are not followed. */
void temp_dir_remove(const char *dir);
/* Returns dir/relative in one of a few static buffers. */
const char *temp_path(const char *dir, const char *relative);
/* Writes a file and makes the directories above it. */
void temp_file(const char *dir, const char *relative, const void *bytes, size_t n);
void temp_text(const char *dir, const char *relative, const char *text);
void temp_link(const char *dir, const char *relative, const char *target);
/* Writes a safetensors file with this header and n data bytes of value 7. */
void temp_safetensors(const char *dir, const char *relative, const char *header, size_t n);

#endif
