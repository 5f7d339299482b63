/* SPDX-License-Identifier: Apache-2.0 */
/* Reads images of file: URLs below one directory. The kernel resolves the path and refuses to leave
 * the directory. This code does not interpret links or "..", so nobody can replace a link between a
 * check and the opening. */
#include "media/media_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/hex.h"

enum { OPEN_FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, ATTEMPTS = 16 };

/* ---- the URL ---- */

static bool decode_hex(const char *digits, size_t n, char *out)
{
    int high = n < 2 ? -1 : hex_digit_value(digits[0]),
        low = n < 2 ? -1 : hex_digit_value(digits[1]);
    if (high < 0 || low < 0) return false;
    *out = (char)(high << 4 | low);
    return true;
}

static bool decode_path(char *out, const char *path, size_t n, ey_err *e)
{
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        char c = path[i];
        if (c == '?' || c == '#')
            return ey_fail(e, EY_BAD_REQUEST,
                           "a file:// URL has no query or fragment; write ? in its path as %%3F "
                           "and # as %%23");
        if (c == '%') {
            if (!decode_hex(path + i + 1, n - i - 1, &c))
                return ey_fail(e, EY_BAD_REQUEST,
                               "the file:// URL has a %% without two hexadecimal digits; write %% "
                               "itself as %%25");
            i += 2;
        }
        if (!c) return ey_fail(e, EY_BAD_REQUEST, "the file:// URL has a NUL byte in it");
        if (used + 1 == EY_MAX_PATH)
            return ey_fail(e, EY_BAD_REQUEST, "the path of the file:// URL is longer than %d bytes",
                           EY_MAX_PATH - 1);
        out[used++] = c;
    }
    out[used] = 0;
    return true;
}

/* file:/path, file:///path and file://localhost/path are equivalent (RFC 8089). */
bool media_file_path(char *out, const char *url, size_t n, ey_err *e)
{
    static const char local[] = "localhost";
    url += strlen("file:");
    n -= strlen("file:");
    if (n >= 2 && url[0] == '/' && url[1] == '/') {
        url += 2;
        n -= 2;
        if (n > strlen(local) && strncasecmp(url, local, strlen(local)) == 0) {
            url += strlen(local);
            n -= strlen(local);
        }
    }
    if (!n || url[0] != '/')
        return ey_fail(e, EY_BAD_REQUEST,
                       "a file:// URL needs the absolute path of a file on the server, such as "
                       "file:///path/to/image.png");
    return decode_path(out, url, n, e);
}

/* ---- opening ---- */

static int open_by_kernel(int dir, const char *path)
{
    struct open_how how = {.flags = OPEN_FLAGS, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    long fd;
    int attempts = 0;
    do
        fd = syscall(SYS_openat2, dir, path, &how, sizeof(how)); /* EAGAIN: a concurrent rename */
    while (fd < 0 && errno == EAGAIN && ++attempts < ATTEMPTS);
    return (int)fd;
}

/* Opens one path component; a link fails with ELOOP or ENOTDIR. */
static int open_step(int from, const char *name, bool last)
{
    return openat(from, name, (last ? OPEN_FLAGS : O_PATH | O_DIRECTORY | O_CLOEXEC) | O_NOFOLLOW);
}

static int open_by_walking(int dir, const char *path)
{
    char name[EY_MAX_PATH];
    int at = fcntl(dir, F_DUPFD_CLOEXEC, 0);
    while (at >= 0) {
        size_t n = strcspn(path, "/");
        bool last = !path[n + strspn(path + n, "/")];
        int next = -1;
        if (n >= sizeof(name)) return close(at), errno = ENAMETOOLONG, -1;
        memcpy(name, path, n);
        name[n] = 0;
        if (strcmp(name, "..") == 0)
            errno = EXDEV;
        else
            next = open_step(at, n ? name : ".", last);
        int problem = errno;
        close(at);
        errno = problem;
        if (next < 0 || last) return next;
        at = next;
        path += n + strspn(path + n, "/");
    }
    return -1;
}

int media_open_below(int dir, const char *path, bool walk)
{
    int fd = walk ? -1 : open_by_kernel(dir, path);
    /* A seccomp filter that does not know openat2 makes it fail with EPERM. */
    if (walk || (fd < 0 && (errno == ENOSYS || errno == EPERM))) return open_by_walking(dir, path);
    return fd;
}

static bool fail_outside(ey_err *e)
{
    return ey_fail(e, EY_BAD_REQUEST,
                   "the path of the file:// URL is not below the directory of "
                   "--allowed-local-media-path");
}

static bool fail_open(int problem, ey_err *e)
{
    if (problem == EXDEV || problem == ELOOP) return fail_outside(e);
    if (problem == ENOENT || problem == ENOTDIR)
        return ey_fail(e, EY_BAD_REQUEST, "there is no file at the path of the file:// URL");
    if (problem == ENAMETOOLONG)
        return ey_fail(e, EY_BAD_REQUEST, "a name in the path of the file:// URL is too long");
    return ey_fail(e, EY_IO, "the file at the path of the file:// URL cannot be opened: %s",
                   strerror(problem));
}

/* ---- below the directory ---- */

/* Returns the part of `path` after "dir/", or NULL if `path` does not begin with it. */
static const char *rest_below(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    while (n && dir[n - 1] == '/')
        n--;
    if (strncmp(path, dir, n) != 0 || path[n] != '/') return NULL;
    return path + n + strspn(path + n, "/");
}

/* Like rest_below(), but the path may begin with the name of the directory or with its real path.
 */
static const char *path_below(const char *path, const char *dir)
{
    const char *rest = rest_below(path, dir);
    char *real = rest ? NULL : realpath(dir, NULL);
    if (real) rest = rest_below(path, real);
    free(real);
    return rest;
}

static int open_image_file(const char *path, const char *dir_name, ey_err *e)
{
    const char *rest = path_below(path, dir_name);
    if (!rest) return fail_outside(e), -1;
    int dir = open(dir_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return ey_fail(e, EY_IO, "the directory of --allowed-local-media-path cannot be opened: %s",
                       strerror(errno)),
               -1;
    int fd = media_open_below(dir, rest[0] ? rest : ".", false), problem = errno;
    close(dir);
    if (fd < 0) fail_open(problem, e);
    return fd;
}

/* ---- reading ---- */

/* Reads `size` bytes, or fewer if the file was truncated after fstat() reported that size. */
static bool read_whole(struct media *out, int fd, size_t size, ey_err *e)
{
    char *bytes = out->bytes;
    while (out->n_bytes < size) {
        ssize_t got = read(fd, bytes + out->n_bytes, size - out->n_bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return ey_fail(e, EY_IO, "the file at the path of the file:// URL cannot be read: %s",
                           strerror(errno));
        if (got == 0) break;
        out->n_bytes += (size_t)got;
    }
    return out->n_bytes > 0 || ey_fail(e, EY_BAD_IMAGE, "Failed to load image: the file is empty");
}

static bool read_image_file(struct media *out, int fd, const struct media_policy *policy, ey_err *e)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return ey_fail(e, EY_BAD_REQUEST, "the path of the file:// URL is not a regular file");
    if ((uint64_t)st.st_size > media_max_bytes(policy)) return media_fail_too_large(policy, e);
    size_t size = (size_t)st.st_size;
    return media_reserve(out, size, policy, e) && read_whole(out, fd, size, e);
}

bool media_read_file(struct media *out, const char *url, size_t n,
                     const struct media_policy *policy, ey_err *e)
{
    char path[EY_MAX_PATH];
    if (!policy->local_path)
        return ey_fail(e, EY_BAD_REQUEST,
                       "Cannot load local files without `--allowed-local-media-path`.");
    if (!media_file_path(path, url, n, e)) return false;
    int fd = open_image_file(path, policy->local_path, e);
    if (fd < 0) return false;
    bool ok = read_image_file(out, fd, policy, e);
    if (ok) media_shrink(out);
    close(fd);
    return ok;
}
