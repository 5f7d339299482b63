/* SPDX-License-Identifier: Apache-2.0 */
#include "base/allocations.h"

#include <stdatomic.h>
#include <stdlib.h>

static atomic_int counting, n_allocations;
static bool (*is_ignored)(void);

void allocations_start(bool (*ignored)(void))
{
    is_ignored = ignored;
    atomic_store(&n_allocations, 0);
    atomic_store(&counting, 1);
}

int allocations_so_far(void)
{
    return atomic_load(&n_allocations);
}

int allocations_stop(void)
{
    atomic_store(&counting, 0);
    return atomic_load(&n_allocations);
}

static void count(void)
{
    if (atomic_load_explicit(&counting, memory_order_acquire) && !(is_ignored && is_ignored()))
        atomic_fetch_add(&n_allocations, 1);
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#endif

#ifdef SANITIZED /* The sanitizer's allocator calls this hook. */
void __sanitizer_malloc_hook(const volatile void *p, size_t n);
__attribute__((visibility("default"))) void __sanitizer_malloc_hook(const volatile void *p,
                                                                    size_t n)
{
    (void)p, (void)n;
    count();
}
#else
#define SHOWN __attribute__((visibility("default")))
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

SHOWN void *malloc(size_t n)
{
    count();
    return __libc_malloc(n);
}

SHOWN void *calloc(size_t n, size_t size)
{
    count();
    return __libc_calloc(n, size);
}

SHOWN void *realloc(void *p, size_t n)
{
    count();
    return __libc_realloc(p, n);
}

SHOWN void *aligned_alloc(size_t alignment, size_t n)
{
    count();
    return __libc_memalign(alignment, n);
}

SHOWN void *memalign(size_t alignment, size_t n);
SHOWN void *memalign(size_t alignment, size_t n)
{
    return aligned_alloc(alignment, n);
}

SHOWN int posix_memalign(void **p, size_t alignment, size_t n)
{
    return (*p = aligned_alloc(alignment, n)) ? 0 : 12;
}
#endif
