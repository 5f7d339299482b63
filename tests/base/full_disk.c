/* SPDX-License-Identifier: Apache-2.0 */
#include "base/full_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool on, can_reserve, without_links;
static uint64_t room_left;

void full_disk_start(uint64_t room, bool reserves)
{
    room_left = room;
    can_reserve = reserves;
    on = true;
}

void full_disk_stop(void)
{
    on = false;
}

void full_disk_refuse_links(bool refuse)
{
    without_links = refuse;
}

static bool is_on_disk(int fd)
{
    struct stat st;
    return on && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* How many of n bytes fit, or -1 with errno if none does. */
static ssize_t fitting(int fd, size_t n)
{
    if (!is_on_disk(fd)) return (ssize_t)n;
    if (n && !room_left) return errno = ENOSPC, -1;
    return n < room_left ? (ssize_t)n : (ssize_t)room_left;
}

static ssize_t took(int fd, ssize_t wrote)
{
    if (wrote > 0 && is_on_disk(fd)) room_left -= (uint64_t)wrote;
    return wrote;
}

/* Like the kernel, an existing entry is reported (EEXIST) before a full disk is. */
static bool entry_fails(const char *path)
{
    struct stat st;
    if (!on || room_left || lstat(path, &st) == 0) return false;
    errno = ENOSPC;
    return true;
}

#define SHOWN __attribute__((visibility("default")))

SHOWN ssize_t write(int fd, const void *from, size_t n)
{
    ssize_t fits = fitting(fd, n);
    return fits < 0 ? -1 : took(fd, syscall(SYS_write, fd, from, (size_t)fits));
}

SHOWN ssize_t pwrite(int fd, const void *from, size_t n, off_t at)
{
    ssize_t fits = fitting(fd, n);
    return fits < 0 ? -1 : took(fd, syscall(SYS_pwrite64, fd, from, (size_t)fits, at));
}

/* Reserves nothing: bytes are charged when they are written. */
SHOWN int fallocate(int fd, int mode, off_t at, off_t n)
{
    if (!is_on_disk(fd)) return (int)syscall(SYS_fallocate, fd, mode, at, n);
    if (!can_reserve) return errno = EOPNOTSUPP, -1;
    return (uint64_t)n > room_left ? (errno = ENOSPC, -1) : 0;
}

SHOWN int mkdir(const char *path, mode_t mode)
{
    return entry_fails(path) ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

SHOWN int symlink(const char *target, const char *path)
{
    if (without_links) return errno = EPERM, -1;
    return entry_fails(path) ? -1 : (int)syscall(SYS_symlinkat, target, AT_FDCWD, path);
}
