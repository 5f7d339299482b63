/* SPDX-License-Identifier: Apache-2.0 */
/* Creates the files of a checkpoint and removes them if something fails. */
#include "mk_output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/limits.h"

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    interrupted = number;
}

void output_catch_signals(void)
{
    struct sigaction stop = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    signal(SIGXFSZ, SIG_IGN);
}

bool output_interrupted(void)
{
    return interrupted;
}

static bool require_empty(const char *dir, ey_err *e)
{
    DIR *d = opendir(dir);
    if (!d) return ey_fail(e, EY_IO, "%s: %s", dir, strerror(errno));
    bool empty = true;
    for (struct dirent *entry; empty && (entry = readdir(d));)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    closedir(d);
    if (empty) return true;
    return ey_fail(e, EY_BAD_REQUEST, "%s: the directory is not empty; give another one", dir);
}

static bool require_space(const char *dir, uint64_t needed, ey_err *e)
{
    struct statvfs fs;
    if (statvfs(dir, &fs) != 0) return true; /* if the disk is full, writing fails */
    uint64_t available = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (available >= needed) return true;
    return ey_fail(e, EY_IO,
                   "%s: the checkpoint needs %" PRIu64 " bytes, but the disk has only %" PRIu64
                   " free",
                   dir, needed, available);
}

bool output_open(struct mk_output *o, const char *dir, uint64_t needed, ey_err *e)
{
    *o = (struct mk_output){.dir = dir};
    if (mkdir(dir, 0777) == 0)
        o->made_dir = true;
    else if (errno != EEXIST)
        return ey_fail(e, EY_IO, "%s: the directory cannot be created: %s", dir, strerror(errno));
    if (require_empty(dir, e) && require_space(dir, needed, e)) return true;
    output_discard(o);
    return false;
}

bool output_folder(struct mk_output *o, const char *name, ey_err *e)
{
    char path[EY_MAX_PATH];
    if (!path_join(path, o->dir, name, e)) return false;
    if (o->n_files == MK_MAX_FILES || mkdir(path, 0777) != 0)
        return ey_fail(e, EY_IO, "%s: the directory cannot be created: %s", path, strerror(errno));
    snprintf(o->names[o->n_files++], sizeof(o->names[0]), "%s", name);
    return true;
}

int output_create(struct mk_output *o, const char *name, ey_err *e)
{
    char path[EY_MAX_PATH];
    if (o->n_files == MK_MAX_FILES)
        return ey_fail(e, EY_INTERNAL, "more than %d files", MK_MAX_FILES), -1;
    if (!path_join(path, o->dir, name, e)) return -1;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return ey_fail(e, EY_IO, "%s: %s", path, strerror(errno)), -1;
    snprintf(o->names[o->n_files++], sizeof(o->names[0]), "%s", name);
    return fd;
}

bool output_text(struct mk_output *o, const char *name, const char *text, size_t n, ey_err *e)
{
    int fd = output_create(o, name, e);
    if (fd < 0) return false;
    ssize_t wrote = 0;
    for (size_t done = 0; wrote >= 0 && done < n; done += (size_t)wrote)
        wrote = write(fd, text + done, n - done);
    int error = wrote < 0 ? errno : 0;
    if (close(fd) != 0 && !error) error = errno;
    return !error || ey_fail(e, EY_IO, "%s/%s: %s", o->dir, name, strerror(error));
}

void output_discard(struct mk_output *o)
{
    char path[EY_MAX_PATH];
    for (int i = o->n_files;
         i-- > 0;) /* in reverse, because a folder is created before its files */
        if (path_join(path, o->dir, o->names[i], NULL)) remove(path);
    if (o->made_dir) rmdir(o->dir);
    o->n_files = 0;
    o->made_dir = false;
}
