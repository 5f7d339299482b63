/* SPDX-License-Identifier: Apache-2.0 */
/* A shim (LD_PRELOAD) whose allocations fail on request. Test and shim share a mapped file that
 * selects the failing allocations and records their callers. Child processes share it, too. It is
 * no part of eyelet. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

enum { MAX_CALLERS = 1 << 16, MAX_FRAMES = 20 };

/* Same layout as in memory_sweep.py. */
struct failing_control {
    atomic_uint_fast64_t count;                /* allocations so far */
    atomic_uint_fast64_t from;                 /* number of the first that fails; 0: none */
    atomic_uint_fast64_t every;                /* after it every n-th fails; 0: none */
    atomic_uint_fast64_t failed;               /* how many failed */
    atomic_uint_fast64_t asks;                 /* whether callers are recorded */
    atomic_uint_fast64_t callers[MAX_CALLERS]; /* hash of each allocation's call stack, from the
                                                  first; comparable within one process */
};

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t count, size_t n);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);

static struct failing_control *control;

__attribute__((constructor)) static void map_failing_control(void)
{
    const char *path = getenv("EY_FAILING_CONTROL");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *map = (void *)syscall(SYS_mmap, NULL, sizeof(*control), PROT_READ | PROT_WRITE,
                                MAP_SHARED, fd, 0);
    close(fd);
    if (map != MAP_FAILED) control = map;
}

struct calls {
    uint64_t hash;
    int n;
};

static _Unwind_Reason_Code add_call(struct _Unwind_Context *context, void *user)
{
    struct calls *calls = user;
    calls->hash = (calls->hash ^ _Unwind_GetIP(context)) * 0x100000001b3u;
    return ++calls->n < MAX_FRAMES ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* The unwinder may allocate, too. The callers of those allocations are not recorded. */
static void note_callers(uint64_t n)
{
    static _Thread_local int unwinds __attribute__((tls_model("initial-exec")));
    struct calls calls = {.hash = 0xcbf29ce484222325u};
    if (n > MAX_CALLERS || unwinds) return;
    unwinds = 1;
    _Unwind_Backtrace(add_call, &calls);
    unwinds = 0;
    atomic_store(&control->callers[n - 1], calls.hash);
}

static int is_to_fail(void)
{
    if (!control) return 0;
    uint64_t n = atomic_fetch_add(&control->count, 1) + 1, from = atomic_load(&control->from),
             every = atomic_load(&control->every);
    if (atomic_load(&control->asks)) note_callers(n);
    if (!from || n < from || (n > from && (!every || (n - from) % every))) return 0;
    atomic_fetch_add(&control->failed, 1);
    errno = ENOMEM;
    return 1;
}

#pragma GCC visibility push(default)

void *malloc(size_t n)
{
    return is_to_fail() ? NULL : __libc_malloc(n);
}

void *calloc(size_t count, size_t n)
{
    return is_to_fail() ? NULL : __libc_calloc(count, n);
}

/* Shrinking may fail, too. */
void *realloc(void *p, size_t n)
{
    return is_to_fail() ? NULL : __libc_realloc(p, n);
}

void *memalign(size_t alignment, size_t n)
{
    return is_to_fail() ? NULL : __libc_memalign(alignment, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return memalign(alignment, n);
}

int posix_memalign(void **p, size_t alignment, size_t n)
{
    void *memory = memalign(alignment, n);
    if (!memory) return ENOMEM;
    *p = memory;
    return 0;
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    if (is_to_fail()) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}

void *mmap64(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    return mmap(at, n, protection, flags, fd, offset);
}

#pragma GCC visibility pop
