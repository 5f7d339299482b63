/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /proc and calls statfs(2). */
#include "base/system.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>

#include "base/limits.h"

enum { MAGIC_9P = 0x01021997 };

/* Writes the rest of the first line that begins with `key`, or "". */
static void line_after(char *out, size_t size, const char *path, const char *key)
{
    char line[512];
    FILE *f = fopen(path, "r");
    out[0] = 0;
    while (f && !out[0] && fgets(line, sizeof(line), f)) {
        if (strncmp(line, key, strlen(key)) != 0) continue;
        const char *value = line + strlen(key);
        value += strspn(value, " \t:");
        snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
    }
    if (f) fclose(f);
}

bool system_is_wsl2(void)
{
    char version[256];
    line_after(version, sizeof(version), "/proc/version", "Linux");
    return strstr(version, "microsoft") || strstr(version, "Microsoft");
}

uint64_t system_memory(void)
{
    char text[64];
    uint64_t kib = 0;
    line_after(text, sizeof(text), "/proc/meminfo", "MemTotal");
    return sscanf(text, "%" SCNu64, &kib) == 1 ? kib * 1024 : 0;
}

void system_cpu_name(char *out, size_t size)
{
    line_after(out, size, "/proc/cpuinfo", "model name");
}

void system_process_name(char *out, size_t size, unsigned pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%u/comm", pid);
    line_after(out, size, path, "");
}

/* Calls statfs(2) for the path or its nearest existing ancestor. */
static bool file_system(const char *path, struct statfs *out)
{
    char part[EY_MAX_PATH];
    if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part)) return false;
    while (statfs(part, out) != 0) {
        char *slash = strrchr(part, '/');
        if (!slash) return statfs(".", out) == 0;
        if (slash == part) return statfs("/", out) == 0;
        *slash = 0;
    }
    return true;
}

bool system_free_space(const char *path, uint64_t *bytes)
{
    struct statfs s;
    if (!file_system(path, &s)) return false;
    *bytes = (uint64_t)s.f_bavail * (uint64_t)s.f_bsize;
    return true;
}

bool system_is_9p(const char *path)
{
    struct statfs s;
    return file_system(path, &s) && s.f_type == MAGIC_9P;
}
