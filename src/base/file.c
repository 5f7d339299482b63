/* SPDX-License-Identifier: Apache-2.0 */
/* Files: whole reads, whole writes and read-only maps, with errors that name the path. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mapped_files.h"

/* Shortens a long path, so that the reason after it fits the message. */
static bool fail_errno(ey_err *e, const char *path)
{
    ey_code code = errno == ENOENT || errno == ENOTDIR ? EY_NOT_FOUND : EY_IO;
    return ey_fail(e, code, "%.500s%s: %s", path, strlen(path) > 500 ? "…" : "", strerror(errno));
}

static int open_regular(const char *path, struct stat *st, ey_err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return fail_errno(e, path), -1;
    if (fstat(fd, st) != 0) {
        fail_errno(e, path);
    } else if (!S_ISREG(st->st_mode)) {
        ey_fail(e, EY_IO, "%s: not a regular file", path);
    } else {
        return fd;
    }
    close(fd);
    return -1;
}

bool file_map_open(struct file_map *map, const char *path, ey_err *e)
{
    struct stat st;
    *map = (struct file_map){0};
    int fd = open_regular(path, &st, e);
    if (fd < 0) return false;
    bool ok = true;
    if (st.st_size > 0) {
        void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        ok = data != MAP_FAILED;
        if (ok) {
            *map = (struct file_map){data, (size_t)st.st_size};
            mapped_files_add(data, map->size, path);
        } else {
            fail_errno(e, path);
        }
    }
    close(fd);
    return ok;
}

void file_map_close(struct file_map *map)
{
    mapped_files_remove(map->data);
    if (map->data) munmap((void *)map->data, map->size);
    *map = (struct file_map){0};
}

void file_map_release_pages(const void *data, size_t size)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
                    first = ((uintptr_t)data + page - 1) / page * page,
                    end = ((uintptr_t)data + size) / page * page;
    if (end > first) madvise((void *)first, end - first, MADV_DONTNEED);
}

/* Ensures space for at least one more byte and a NUL, with at most max + 2 bytes in total. */
static bool file_buffer_grow(char **data, size_t size, size_t *capacity, size_t max)
{
    if (size + 1 < *capacity) return true;
    size_t wanted = *capacity ? *capacity * 2 : 65536;
    if (wanted > max + 2) wanted = max + 2;
    char *larger = realloc(*data, wanted);
    if (!larger) return false;
    *data = larger;
    *capacity = wanted;
    return true;
}

static bool file_read_all(int fd, char **data, size_t *size, const char *path, size_t max,
                          ey_err *e)
{
    size_t capacity = 0;
    for (;;) {
        if (!file_buffer_grow(data, *size, &capacity, max)) return ey_fail_memory(e, path, *size);
        ssize_t got = read(fd, *data + *size, capacity - *size - 1);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_errno(e, path);
        *size += (size_t)got;
        if (*size > max)
            return ey_fail(e, EY_IO, "%s: larger than the limit of %zu bytes", path, max);
        if (got == 0) break;
    }
    (*data)[*size] = 0;
    return true;
}

static bool read_descriptor(char **data, size_t *size, int fd, const char *path, size_t max,
                            ey_err *e)
{
    bool ok = file_read_all(fd, data, size, path, max, e);
    close(fd);
    if (!ok) {
        free(*data);
        *data = NULL;
        *size = 0;
    }
    return ok;
}

bool file_read(char **data, size_t *size, const char *path, size_t max, ey_err *e)
{
    *data = NULL;
    *size = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? fail_errno(e, path) : read_descriptor(data, size, fd, path, max, e);
}

bool file_read_regular(char **data, size_t *size, const char *path, size_t max, ey_err *e)
{
    struct stat st;
    *data = NULL;
    *size = 0;
    int fd = open_regular(path, &st, e);
    return fd >= 0 && read_descriptor(data, size, fd, path, max, e);
}

void file_open_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
        int opened = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        if (opened >= 0 && opened != fd) close(opened);
    }
}

bool file_write(int fd, const void *bytes, size_t n)
{
    const char *from = bytes;
    while (n) {
        ssize_t wrote = write(fd, from, n);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return false;
        from += wrote;
        n -= (size_t)wrote;
    }
    return true;
}

bool file_write_at(int fd, const void *bytes, uint64_t n, uint64_t at)
{
    const char *from = bytes;
    while (n) {
        ssize_t wrote = pwrite(fd, from, n, (off_t)at);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return false;
        from += wrote;
        at += (uint64_t)wrote;
        n -= (uint64_t)wrote;
    }
    return true;
}

/* Writes to an open file and closes it. A failure leaves its reason in errno. */
static bool write_and_close(int fd, const void *bytes, size_t n)
{
    if (fd < 0) return false;
    bool ok = file_write(fd, bytes, n);
    int reason = errno;
    if (close(fd) != 0 && ok) return false;
    errno = reason;
    return ok;
}

/* Writes into a device or pipe instead of replacing it. If the path is a symbolic link, replaces
 * the file that it points to. */
bool file_replace(const char *path, const void *bytes, size_t n)
{
    struct stat st;
    char real[PATH_MAX], part[PATH_MAX + sizeof(".part")];
    const bool there = stat(path, &st) == 0;
    if (there && !S_ISREG(st.st_mode))
        return write_and_close(open(path, O_WRONLY | O_CLOEXEC), bytes, n);
    if (there && realpath(path, real)) path = real;
    if (snprintf(part, sizeof(part), "%s.part", path) >= (int)sizeof(part)) {
        errno = ENAMETOOLONG;
        return false;
    }
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return false;
    if (there) fchmod(fd, st.st_mode & 0777);
    if (write_and_close(fd, bytes, n) && rename(part, path) == 0) return true;
    int reason = errno;
    unlink(part);
    errno = reason;
    return false;
}

bool errno_is_disk_full(void)
{
    return errno == ENOSPC || errno == EDQUOT;
}

bool path_join(char *out, const char *dir, const char *name, ey_err *e)
{
    int n = snprintf(out, EY_MAX_PATH, "%s/%s", dir, name);
    if (n >= EY_MAX_PATH)
        return ey_fail(e, EY_BAD_REQUEST, "%.200s…: the path is longer than %d bytes", dir,
                       EY_MAX_PATH);
    return true;
}

bool path_is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool name_ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

bool path_is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool path_is_same(const char *a, const char *b)
{
    struct stat first, second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

bool file_check_not_lfs_pointer(const void *bytes, size_t n, const char *path, ey_err *e)
{
    static const char first_line[] = "version https://git-lfs.github.com/spec/";
    if (n < sizeof(first_line) - 1 || memcmp(bytes, first_line, sizeof(first_line) - 1) != 0)
        return true;
    return ey_fail(e, EY_BAD_MODEL,
                   "%s: a Git LFS pointer in place of the file; run `git lfs pull` there, or get "
                   "the model by `eyelet pull`",
                   path);
}
