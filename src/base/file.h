/* SPDX-License-Identifier: Apache-2.0 */
/* Files: reads and writes of whole files, and read-only maps. */
#ifndef EY_BASE_FILE_H
#define EY_BASE_FILE_H

#include "base/err.h"

struct file_map {
    const uint8_t *data; /* NULL when the file is empty */
    size_t size;
};

/* Maps a regular file read-only. Fails if it does not exist, is not regular or is not readable. */
bool file_map_open(struct file_map *map, const char *path, ey_err *e);
void file_map_close(struct file_map *map);
/* Lets the kernel drop the whole pages of this range, which will not be read again soon. A later
 * access reads them from the file. */
void file_map_release_pages(const void *data, size_t size);

/* Reads a file of at most `max` bytes into *data, which the caller frees. A NUL that *size does not
 * count follows the bytes. Works on pipes; "-" is not special. */
bool file_read(char **data, size_t *size, const char *path, size_t max, ey_err *e);
/* Like file_read but for regular files only: a FIFO without a writer would block forever. */
bool file_read_regular(char **data, size_t *size, const char *path, size_t max, ey_err *e);

/* Opens /dev/null on descriptors 0 to 2 if they are closed, so that no file or socket gets their
 * number. Reads and writes there fail as before. */
void file_open_standard(void);

/* Writes all n bytes at the descriptor's offset. On failure errno is that of write(). */
bool file_write(int fd, const void *bytes, size_t n);
/* Like file_write at offset `at`; leaves the descriptor's offset alone. */
bool file_write_at(int fd, const void *bytes, uint64_t n, uint64_t at);
/* Replaces the file at `path` by one with these bytes, completely or not at all: writes PATH.part
 * and renames it. On failure errno says why, and the old file is unchanged. */
bool file_replace(const char *path, const void *bytes, size_t n);
/* Whether errno means that the disk or the user's quota is full. */
bool errno_is_disk_full(void);

/* Writes dir + "/" + name to out[EY_MAX_PATH]. Fails if it does not fit. */
bool path_join(char *out, const char *dir, const char *name, ey_err *e);
bool path_is_directory(const char *path);
bool path_is_file(const char *path);
bool name_ends_with(const char *name, const char *end);
/* Whether both paths lead to the same existing file. */
bool path_is_same(const char *a, const char *b);

/* Fails if the bytes are a Git LFS pointer, which a clone without LFS has in place of the file. */
bool file_check_not_lfs_pointer(const void *bytes, size_t n, const char *path, ey_err *e);

#endif
