/* SPDX-License-Identifier: Apache-2.0 */
/* Available memory from /proc/meminfo and the cgroup (v2). */
#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Returns the number in a file, or `otherwise` if the file has none, such as "max". */
static uint64_t number_in(const char *path, uint64_t otherwise)
{
    uint64_t value = otherwise;
    FILE *f = fopen(path, "r");
    if (!f) return otherwise;
    if (fscanf(f, "%" SCNu64, &value) != 1) value = otherwise;
    fclose(f);
    return value;
}

static uint64_t system_available(void)
{
    char line[256];
    uint64_t kib = UINT64_MAX;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1) break;
    if (f) fclose(f);
    return kib > UINT64_MAX / 1024 ? UINT64_MAX : kib * 1024;
}

uint64_t memory_available(void)
{
    uint64_t left = system_available(), limit = number_in("/sys/fs/cgroup/memory.max", UINT64_MAX);
    uint64_t used = number_in("/sys/fs/cgroup/memory.current", 0);
    uint64_t group = limit == UINT64_MAX ? UINT64_MAX : limit > used ? limit - used : 0;
    return group < left ? group : left;
}
