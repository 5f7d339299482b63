/* SPDX-License-Identifier: Apache-2.0 */
/* Available memory from /proc/meminfo and the cgroups. */
#include "base/memory.h"

#include <inttypes.h>
#include <stdbool.h>
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

/* Returns the number in the line that begins with `key` and a blank, or `otherwise` without one. */
static uint64_t number_after(const char *path, const char *key, uint64_t otherwise)
{
    char line[256];
    size_t n = strlen(key);
    uint64_t value = otherwise;
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, key, n) == 0 && line[n] == ' ' &&
            sscanf(line + n, "%" SCNu64, &value) == 1)
            break;
    if (f) fclose(f);
    return value;
}

static uint64_t system_available(void)
{
    uint64_t kib = number_after("/proc/meminfo", "MemAvailable:", UINT64_MAX);
    return kib > UINT64_MAX / 1024 ? UINT64_MAX : kib * 1024;
}

/* ---- cgroups ---- */

/* The mount point of a cgroup hierarchy, and the names of its files. */
struct cgroup_files {
    const char *mount, *limit, *used;
    const char *active_cache, *inactive_cache; /* counters in memory.stat */
};

/* Returns the bytes that the group uses without its page cache, which the kernel drops when the
 * group needs memory. MemAvailable does not count it as used either. */
static uint64_t used_in_group(const char *root, const struct cgroup_files *files, const char *group)
{
    char path[8192];
    snprintf(path, sizeof(path), "%s%s%s/%s", root, files->mount, group, files->used);
    uint64_t used = number_in(path, 0);
    snprintf(path, sizeof(path), "%s%s%s/memory.stat", root, files->mount, group);
    uint64_t active = number_after(path, files->active_cache, 0),
             inactive = number_after(path, files->inactive_cache, 0);
    used -= active < used ? active : used;
    return used - (inactive < used ? inactive : used);
}

/* Returns the memory left under the limits of the group and its ancestors, or UINT64_MAX if none
 * has a limit. Modifies `group`. In a container, the path of the group may not exist, but the root
 * of the mount is the container's group. */
static uint64_t left_in_groups(const char *root, const struct cgroup_files *files, char *group)
{
    char path[8192];
    uint64_t least = UINT64_MAX;
    for (size_t n = strcspn(group, "\n");;) {
        group[n] = 0;
        snprintf(path, sizeof(path), "%s%s%s/%s", root, files->mount, group, files->limit);
        uint64_t limit = number_in(path, UINT64_MAX);
        uint64_t used = limit == UINT64_MAX ? 0 : used_in_group(root, files, group),
                 left = limit > used ? limit - used : 0;
        if (left < least) least = left;
        if (!n) return least;
        while (n && group[--n] != '/') {}
    }
}

/* Whether a line such as "4:cpu,memory:/path" belongs to the memory controller of version 1. */
static bool names_memory(const char *line)
{
    char names[256];
    if (sscanf(line, "%*d:%255[^:]:", names) != 1) return false;
    for (char *rest = names, *name; (name = strsep(&rest, ","));)
        if (strcmp(name, "memory") == 0) return true;
    return false;
}

uint64_t memory_left_in_cgroups(const char *root)
{
    static const struct cgroup_files v2 = {"/sys/fs/cgroup", "memory.max", "memory.current",
                                           "active_file", "inactive_file"},
                                     v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                           "memory.usage_in_bytes", "total_active_file",
                                           "total_inactive_file"};
    char line[4096];
    uint64_t least = left_in_groups(root, &v2, (char[]){""});
    snprintf(line, sizeof(line), "%s/proc/self/cgroup", root);
    FILE *f = fopen(line, "r");
    while (f && fgets(line, sizeof(line), f)) {
        bool unified = strncmp(line, "0::", 3) == 0;
        char *group = strchr(line, '/');
        if (!group || (!unified && !names_memory(line))) continue;
        uint64_t left = left_in_groups(root, unified ? &v2 : &v1, group);
        if (left < least) least = left;
    }
    if (f) fclose(f);
    return least;
}

uint64_t memory_available(void)
{
    uint64_t left = system_available(), group = memory_left_in_cgroups("");
    return group < left ? group : left;
}
