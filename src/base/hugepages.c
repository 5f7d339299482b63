/* SPDX-License-Identifier: Apache-2.0 */
/* Huge pages for anonymous memory. */
#include "base/hugepages.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static uintptr_t hugepage_round_up(uintptr_t x)
{
    return (x + HUGEPAGE_BYTES - 1) / HUGEPAGE_BYTES * HUGEPAGE_BYTES;
}

static uintptr_t hugepage_round_down(uintptr_t x)
{
    return x / HUGEPAGE_BYTES * HUGEPAGE_BYTES;
}

/* The file says "always [madvise] never"; the brackets mark the current mode. */
bool hugepages_available(void)
{
    char line[64] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (!f) return false;
    bool available = fgets(line, sizeof(line), f) && !strstr(line, "[never]");
    fclose(f);
    return available;
}

void hugepages_advise(void *data, size_t size)
{
    uintptr_t begin = hugepage_round_up((uintptr_t)data),
              end = hugepage_round_down((uintptr_t)data + size);
    if (begin < end) madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

void *hugepages_alloc(size_t size)
{
    size = hugepage_round_up(size);
    char *all = mmap(NULL, size + HUGEPAGE_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return NULL;
    char *memory = (char *)hugepage_round_up((uintptr_t)all);
    if (memory > all) munmap(all, (size_t)(memory - all));
    munmap(memory + size, (size_t)(all + HUGEPAGE_BYTES - memory));
    hugepages_advise(memory, size);
    return memory;
}

void hugepages_free(void *memory, size_t size)
{
    if (memory) munmap(memory, hugepage_round_up(size));
}
