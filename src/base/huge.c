/* SPDX-License-Identifier: Apache-2.0 */
/* Huge pages, for memory of one's own. */
#include "base/huge.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static uintptr_t up(uintptr_t x)
{
    return (x + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

static uintptr_t down(uintptr_t x)
{
    return x / HUGE_PAGE * HUGE_PAGE;
}

/* "always [madvise] never": what is in brackets. */
bool huge_pages_given(void)
{
    char line[64] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (!f) return false;
    bool given = fgets(line, sizeof(line), f) && !strstr(line, "[never]");
    fclose(f);
    return given;
}

void huge_ask(void *data, size_t size)
{
    uintptr_t begin = up((uintptr_t)data), end = down((uintptr_t)data + size);
    if (begin < end) madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

void *huge_room(size_t size)
{
    size = up(size);
    char *all = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return NULL;
    char *room = (char *)up((uintptr_t)all);
    if (room > all) munmap(all, (size_t)(room - all));
    munmap(room + size, (size_t)(all + HUGE_PAGE - room));
    huge_ask(room, size);
    return room;
}

void huge_room_free(void *room, size_t size)
{
    if (room) munmap(room, up(size));
}
