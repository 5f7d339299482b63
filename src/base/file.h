/* SPDX-License-Identifier: Apache-2.0 */
/* Files: whole reads, whole writes and read-only maps. */
#ifndef EY_BASE_FILE_H
#define EY_BASE_FILE_H

#include "base/err.h"

struct file_map {
    const uint8_t *data; /* NULL when the file is empty */
    size_t size;
};

/* Maps a regular file read-only. Errors: not there, not a regular file, not readable. */
bool file_map_open(struct file_map *map, const char *path, ey_err *e);
void file_map_close(struct file_map *map);
/* Part of a map will not be read again soon: its whole pages may leave this process's memory. They
 * come back when they are read. */
void file_map_release_pages(const void *data, size_t size);

/* Reads a whole file of at most `max` bytes into *data (the caller frees; one NUL follows the
 * bytes, not counted in *size). "-" is not special. Works on pipes too. */
bool file_read(char **data, size_t *size, const char *path, size_t max, ey_err *e);
/* The same of a regular file only, so that a pipe that nobody writes to cannot hold the reader. */
bool file_read_regular(char **data, size_t *size, const char *path, size_t max, ey_err *e);

/* Opens /dev/null in place of standard input, output and error where one is closed: the next file
 * or socket would take its number. Reading and writing there fail as before. */
void file_open_standard(void);

/* Writes all of it at the descriptor's place; false with errno as write() left it. */
bool file_write(int fd, const void *bytes, size_t n);
/* The same at byte `at` of the file; the descriptor's place stays. */
bool file_write_at(int fd, const void *bytes, uint64_t n, uint64_t at);
/* True if errno says that the disk, or the user's quota, is full. */
bool errno_is_disk_full(void);

/* dir + "/" + name in `out` of EY_MAX_PATH bytes; false with a message when too long. */
bool path_join(char *out, const char *dir, const char *name, ey_err *e);
bool path_is_directory(const char *path);
bool path_is_file(const char *path);

/* Whether these bytes are what Git keeps in place of a large file; fails with a message then. */
bool file_check_not_lfs_pointer(const void *bytes, size_t n, const char *path, ey_err *e);

#endif
