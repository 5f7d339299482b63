/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/output_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/system.h"

#define SPARE_BYTES ((uint64_t)64 << 20)

bool output_fail(const struct output_folder *o, const char *path, ey_err *e)
{
    if (errno_is_disk_full())
        return ey_fail(e, EY_IO,
                       "%.400s: the disk is full; the output needs %.2f GB. Nothing was kept: make "
                       "room or choose another disk",
                       path, (double)o->bytes / 1e9);
    return ey_fail(e, EY_IO, "%.400s: %s", path, strerror(errno));
}

static bool check_room(const struct output_folder *o, const char *path, ey_err *e)
{
    uint64_t room;
    if (!system_free_space(path, &room) || room >= o->bytes + SPARE_BYTES) return true;
    return ey_fail(e, EY_IO,
                   "the output needs %.2f GB, but %.300s has only %.2f GB free; make room or "
                   "choose another disk",
                   (double)o->bytes / 1e9, path, (double)room / 1e9);
}

bool output_folder_open(struct output_folder *o, const char *path, uint64_t bytes, ey_err *e)
{
    struct stat there;
    size_t n = strlen(path);
    *o = (struct output_folder){.bytes = bytes};
    while (n > 1 && path[n - 1] == '/')
        n--;
    if (lstat(path, &there) == 0)
        return ey_fail(e, EY_BAD_REQUEST, "%.500s already exists; give another name", path);
    if (!check_room(o, path, e)) return false;
    if (snprintf(o->temporary, sizeof(o->temporary), "%.*s.part-%ld", (int)n, path,
                 (long)getpid()) >= (int)sizeof(o->temporary)) {
        o->temporary[0] = 0;
        return ey_fail(e, EY_BAD_REQUEST, "%.200s…: the path is too long", path);
    }
    if (mkdir(o->temporary, 0777) == 0) return true;
    output_fail(o, o->temporary, e);
    o->temporary[0] = 0;
    return false;
}

int output_file_create(struct output_folder *o, const char *name, ey_err *e)
{
    char path[EY_MAX_PATH];
    if (o->n == OUTPUT_MAX_FILES || strlen(name) >= OUTPUT_NAME_BYTES) {
        ey_fail(e, EY_IO, "%.100s: too many files, or the name is too long", name);
        return -1;
    }
    if (!path_join(path, o->temporary, name, e)) return -1;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        output_fail(o, path, e);
        return -1;
    }
    memcpy(o->name[o->n++], name, strlen(name) + 1);
    return fd;
}

bool output_file_finish(struct output_folder *o, int fd, bool ok, ey_err *e)
{
    const char *name = o->name[o->n - 1];
    if (!ok) output_fail(o, name, e);
    if (ok && fdatasync(fd) != 0) ok = output_fail(o, name, e);
    if (close(fd) != 0 && ok) ok = output_fail(o, name, e);
    return ok;
}

bool output_file_write(struct output_folder *o, const char *name, const char *text, size_t n,
                       ey_err *e)
{
    int fd = output_file_create(o, name, e);
    return fd >= 0 && output_file_finish(o, fd, file_write(fd, text, n), e);
}

bool output_folder_commit(struct output_folder *o, const char *path, ey_err *e)
{
    if (rename(o->temporary, path) != 0) return output_fail(o, path, e);
    o->temporary[0] = 0;
    return true;
}

bool output_file_commit(struct output_folder *o, int i, const char *path, ey_err *e)
{
    char from[EY_MAX_PATH];
    if (!path_join(from, o->temporary, o->name[i], e)) return false;
    return rename(from, path) == 0 || output_fail(o, path, e);
}

void output_folder_close(struct output_folder *o)
{
    char path[EY_MAX_PATH];
    if (!o->temporary[0]) return;
    for (int i = 0; i < o->n; i++)
        if (path_join(path, o->temporary, o->name[i], NULL)) unlink(path);
    rmdir(o->temporary);
    o->temporary[0] = 0;
}
