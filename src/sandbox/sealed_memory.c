/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/sealed_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { ALL_SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };

int sealed_memory_create(const char *name, ey_err *e)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        ey_fail(e, EY_NO_MEMORY, "a memory file for the decoder cannot be created: %s",
                strerror(errno));
    return fd;
}

bool sealed_memory_store(int fd, const void *bytes, size_t n, ey_err *e)
{
    if (file_write(fd, bytes, n) && lseek(fd, 0, SEEK_SET) == 0 && sealed_memory_seal(fd))
        return true;
    return ey_fail(e, EY_NO_MEMORY, "%zu bytes of input for the decoder cannot be stored: %s", n,
                   strerror(errno));
}

bool sealed_memory_seal(int fd)
{
    return fcntl(fd, F_ADD_SEALS, ALL_SEALS) == 0;
}

bool sealed_memory_map(void **map, size_t *n, int fd, uint64_t max)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & ALL_SEALS) != ALL_SEALS) return false;
    if (fstat(fd, &st) != 0 || st.st_size < 1 || (uint64_t)st.st_size > max) return false;
    void *at = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) return false;
    *map = at;
    *n = (size_t)st.st_size;
    return true;
}
