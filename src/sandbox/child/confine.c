/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/child/confine.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sandbox/child/syscall_filter.h"
#include "sandbox/landlock.h"

enum { CHILD_FILES = 64, WORKER_FILES = 16 };

static bool set_limit(__rlimit_resource_t resource, uint64_t value)
{
    const struct rlimit limit = {value, value};
    return setrlimit(resource, &limit) == 0;
}

static bool fail_confine(const char *what, ey_err *e)
{
    return ey_fail(e, EY_IO, "%s: %s", what, strerror(errno));
}

bool confine_child(ey_err *e)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return fail_confine("PR_SET_PDEATHSIG", e);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fail_confine("PR_SET_NO_NEW_PRIVS", e);
    if (prctl(PR_SET_DUMPABLE, 0) != 0) return fail_confine("PR_SET_DUMPABLE", e);
    if (!set_limit(RLIMIT_CORE, 0)) return fail_confine("RLIMIT_CORE", e);
    if (!set_limit(RLIMIT_NOFILE, CHILD_FILES)) return fail_confine("RLIMIT_NOFILE", e);
    return true;
}

uint64_t mapped_bytes(void)
{
    uint64_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f) return 0;
    if (fscanf(f, "%" SCNu64, &pages) != 1) pages = 0;
    fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

bool confine_worker(const struct worker_limits *limits, int parent, ey_err *e)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return fail_confine("PR_SET_PDEATHSIG", e);
    if (getppid() != parent) return ey_fail(e, EY_IO, "its parent process has died");
    if (!set_limit(RLIMIT_CPU, limits->cpu_seconds)) return fail_confine("RLIMIT_CPU", e);
    if (!set_limit(RLIMIT_FSIZE, limits->file_bytes)) return fail_confine("RLIMIT_FSIZE", e);
#ifndef EY_SANITIZED /* sanitizers reserve terabytes for shadow memory */
    if (!set_limit(RLIMIT_AS, limits->address_space)) return fail_confine("RLIMIT_AS", e);
#endif
    return true;
}

bool confine_decoder(ey_err *e)
{
    if (!set_limit(RLIMIT_NOFILE, WORKER_FILES)) return fail_confine("RLIMIT_NOFILE", e);
    return filter_decoder_calls() || fail_confine("seccomp", e);
}

bool confine_program(ey_err *e)
{
    static const char *const readable[] = {"/usr",
                                           "/lib",
                                           "/lib64",
                                           "/bin",
                                           "/etc/fonts",
                                           "/etc/ld.so.cache",
                                           "/etc/alternatives",
                                           "/var/cache/fontconfig",
                                           "/dev/null",
                                           "/dev/zero",
                                           "/dev/urandom",
                                           NULL};
    if (!landlock_available()) return ey_fail(e, EY_IO, "the kernel has no Landlock");
    if (!landlock_read_only(readable)) return fail_confine("Landlock", e);
    return filter_program_calls() || fail_confine("seccomp", e);
}
