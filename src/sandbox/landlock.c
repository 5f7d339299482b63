/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Access rights by Landlock version; the installed headers may be older than the kernel. */
enum {
    RIGHTS_V1 = (1 << 13) - 1, /* from EXECUTE to MAKE_SYM */
    RIGHT_REFER_V2 = 1 << 13,
    RIGHT_TRUNCATE_V3 = 1 << 14,
    RIGHT_IOCTL_DEV_V5 = 1 << 15,
    RIGHTS_TO_READ_FILE = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE,
    RIGHTS_TO_READ = RIGHTS_TO_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
};

static long landlock_version(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_CREATE_RULESET_VERSION);
}

bool landlock_available(void)
{
    return landlock_version() >= 1;
}

static __u64 handled_rights(long version)
{
    __u64 rights = RIGHTS_V1;
    if (version >= 2) rights |= RIGHT_REFER_V2;
    if (version >= 3) rights |= RIGHT_TRUNCATE_V3;
    if (version >= 5) rights |= RIGHT_IOCTL_DEV_V5;
    return rights;
}

static bool allow_reading(int ruleset, const char *path)
{
    struct stat st;
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) return true;
    bool ok = fstat(fd, &st) == 0;
    struct landlock_path_beneath_attr rule = {
        .allowed_access = ok && S_ISDIR(st.st_mode) ? RIGHTS_TO_READ : RIGHTS_TO_READ_FILE,
        .parent_fd = fd};
    ok = ok && syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
    close(fd);
    return ok;
}

bool landlock_read_only(const char *const *paths)
{
    struct landlock_ruleset_attr attr = {.handled_access_fs = handled_rights(landlock_version())};
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    bool ok = ruleset >= 0;
    for (; ok && *paths; paths++)
        ok = allow_reading(ruleset, *paths);
    ok = ok && syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
    if (ruleset >= 0) close(ruleset);
    return ok;
}
