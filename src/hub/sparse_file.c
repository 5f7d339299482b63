/* SPDX-License-Identifier: Apache-2.0 */
#include "hub/sparse_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/limits.h"

bool sparse_file_write(const char *directory, const char *name, const struct buf *bytes,
                       uint64_t size, ey_err *e)
{
    char path[EY_MAX_PATH];
    if (!path_join(path, directory, name, e)) return false;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = fd >= 0 && file_write(fd, bytes->data, bytes->size) &&
              ftruncate(fd, (off_t)size) == 0;
    if (!ok && errno_is_disk_full())
        ey_fail(e, EY_IO,
                "%.500s: the disk of temporary files is full; make room, or set TMPDIR to a folder "
                "on another disk",
                path);
    else if (!ok)
        ey_fail(e, EY_IO, "%.500s: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    return ok;
}
