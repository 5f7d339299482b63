/* SPDX-License-Identifier: Apache-2.0 */
/* Temporary file trees for tests; any failure ends the test program. */
#include "temp_dir.h"

#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 4096 };

static void require(bool ok, const char *what)
{
    if (ok) return;
    perror(what);
    exit(1);
}

const char *temp_dir_make(void)
{
    static char path[PATH];
    snprintf(path, sizeof(path), "/tmp/eyelet-test-XXXXXX");
    require(mkdtemp(path), path);
    return path;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st;
    (void)type;
    (void)where;
    return remove(path);
}

void temp_dir_remove(const char *dir)
{
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static char kept[PATH];

static void remove_kept(void)
{
    temp_dir_remove(kept);
}

const char *temp_dir_until_exit(void)
{
    snprintf(kept, sizeof(kept), "%s", temp_dir_make());
    require(atexit(remove_kept) == 0, "atexit");
    return kept;
}

const char *temp_path(const char *dir, const char *relative)
{
    static char paths[8][PATH];
    static int next;
    char *path = paths[next++ % 8];
    require(snprintf(path, PATH, "%s/%s", dir, relative) < PATH, "path");
    return path;
}

static void make_parents(const char *path)
{
    char part[PATH];
    for (const char *slash = path; (slash = strchr(slash + 1, '/'));) {
        snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
        mkdir(part, 0777);
    }
}

void temp_file(const char *dir, const char *relative, const void *bytes, size_t n)
{
    const char *path = temp_path(dir, relative);
    make_parents(path);
    FILE *f = fopen(path, "wb");
    require(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0, path);
}

void temp_text(const char *dir, const char *relative, const char *text)
{
    temp_file(dir, relative, text, strlen(text));
}

void temp_link(const char *dir, const char *relative, const char *target)
{
    const char *path = temp_path(dir, relative);
    make_parents(path);
    require(symlink(target, path) == 0, path);
}

void temp_safetensors(const char *dir, const char *relative, const char *header, size_t n)
{
    uint64_t length = strlen(header);
    size_t size = 8 + (size_t)length + n;
    uint8_t *bytes = malloc(size);
    require(bytes, "memory");
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, (size_t)length);
    memset(bytes + 8 + length, 7, n);
    temp_file(dir, relative, bytes, size);
    free(bytes);
}
