/* SPDX-License-Identifier: Apache-2.0 */
/* Removes models from the cache. Every step is relative to an open folder and follows no link, so
 * nothing outside the repository's folder can be touched. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "hub/hub.h"

enum { MAX_DEPTH = 32, BLOCK = 512 };

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static DIR *open_directory_at(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d && fd >= 0) close(fd);
    return d;
}

/* ---- whole trees ---- */

/* Returns the disk space that is freed if a name is deleted: the file's space if it has no other
 * hard link, else 0. */
static uint64_t freed_bytes(const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_nlink == 1 ? (uint64_t)st->st_blocks * BLOCK : 0;
}

/* Sums up a tree's bytes and, if `removing`, deletes it. On failure errno says why. */
static bool walk_tree(int at, const char *name, int depth, bool removing, uint64_t *bytes)
{
    struct stat st;
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT;
    if (!S_ISDIR(st.st_mode))
        return *bytes += freed_bytes(&st), !removing || unlinkat(at, name, 0) == 0;
    if (depth >= MAX_DEPTH) return errno = ELOOP, false;
    DIR *d = open_directory_at(at, name);
    bool ok = d != NULL;
    for (struct dirent *entry; ok && (entry = readdir(d));)
        if (!is_dots(entry->d_name))
            ok = walk_tree(dirfd(d), entry->d_name, depth + 1, removing, bytes);
    if (d) closedir(d);
    return ok && (!removing || unlinkat(at, name, AT_REMOVEDIR) == 0);
}

/* ---- blobs of one snapshot ---- */

struct blob_names {
    char **item;
    size_t n;
};

static bool blob_names_add(struct blob_names *x, const char *name)
{
    char **more = realloc(x->item, (x->n + 1) * sizeof(*more)), *copy = strdup(name);
    if (more) x->item = more;
    if (!more || !copy) return free(copy), false;
    x->item[x->n++] = copy;
    return true;
}

static bool blob_names_have(const struct blob_names *x, const char *name)
{
    for (size_t i = 0; i < x->n; i++)
        if (strcmp(x->item[i], name) == 0) return true;
    return false;
}

static void blob_names_free(struct blob_names *x)
{
    for (size_t i = 0; i < x->n; i++)
        free(x->item[i]);
    free(x->item);
    *x = (struct blob_names){0};
}

/* Returns NAME if the link's target is …/blobs/NAME, the only kind of link in a snapshot. */
static const char *linked_blob(int at, const char *name, char target[EY_MAX_PATH])
{
    ssize_t n = readlinkat(at, name, target, EY_MAX_PATH - 1);
    if (n <= 0) return NULL;
    target[n] = 0;
    char *slash = strrchr(target, '/');
    static const char folder[] = "/blobs";
    size_t length = slash ? (size_t)(slash - target) : 0;
    if (length < strlen(folder) || memcmp(slash - strlen(folder), folder, strlen(folder)) != 0 ||
        !slash[1] || is_dots(slash + 1))
        return NULL;
    return slash + 1;
}

static bool collect_blobs(struct blob_names *out, int at, const char *name, int depth)
{
    char target[EY_MAX_PATH];
    DIR *d = depth < MAX_DEPTH ? open_directory_at(at, name) : NULL;
    bool ok = d != NULL;
    for (struct dirent *entry; ok && (entry = readdir(d));) {
        struct stat st;
        if (is_dots(entry->d_name) ||
            fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        const char *blob = S_ISLNK(st.st_mode) ? linked_blob(dirfd(d), entry->d_name, target)
                                               : NULL;
        if (blob)
            ok = blob_names_add(out, blob);
        else if (S_ISDIR(st.st_mode))
            ok = collect_blobs(out, dirfd(d), entry->d_name, depth + 1);
    }
    if (d) closedir(d);
    return ok;
}

static bool is_directory_at(int at, const char *name)
{
    struct stat st;
    return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* Collects the blobs of one snapshot in `own` and those of all others in `others`. Ignores files in
 * the folder, such as a file manager's. */
static bool collect_all_blobs(int repository, const char *commit, struct blob_names *own,
                              struct blob_names *others, size_t *n_others)
{
    DIR *d = open_directory_at(repository, "snapshots");
    bool ok = true;
    *n_others = 0;
    for (struct dirent *entry; d && ok && (entry = readdir(d));) {
        if (is_dots(entry->d_name) || !is_directory_at(dirfd(d), entry->d_name)) continue;
        bool is_own = strcmp(entry->d_name, commit) == 0;
        *n_others += !is_own;
        ok = collect_blobs(is_own ? own : others, dirfd(d), entry->d_name, 0);
    }
    if (d) closedir(d);
    return ok;
}

/* ---- one snapshot ---- */

static bool remove_blobs(int repository, const struct blob_names *own,
                         const struct blob_names *others, bool removing, uint64_t *bytes)
{
    DIR *blobs = open_directory_at(repository, "blobs");
    bool ok = true;
    for (size_t i = 0; blobs && ok && i < own->n; i++)
        if (!blob_names_have(others, own->item[i]))
            ok = walk_tree(dirfd(blobs), own->item[i], MAX_DEPTH, removing, bytes);
    if (blobs) closedir(blobs);
    return ok;
}

/* Removes the references to the commit. */
static bool remove_refs(int at, const char *name, const char *commit, int depth)
{
    DIR *d = depth < MAX_DEPTH ? open_directory_at(at, name) : NULL;
    bool ok = true;
    for (struct dirent *entry; d && ok && (entry = readdir(d));) {
        char text[REPOSITORY_REVISION_BYTES + 2] = "";
        struct stat st;
        if (is_dots(entry->d_name) ||
            fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (S_ISDIR(st.st_mode)) ok = remove_refs(dirfd(d), entry->d_name, commit, depth + 1);
        int fd = S_ISREG(st.st_mode)
                     ? openat(dirfd(d), entry->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
                     : -1;
        if (fd < 0) continue;
        if (read(fd, text, sizeof(text) - 1) > 0 && strncmp(text, commit, strlen(commit)) == 0)
            ok = unlinkat(dirfd(d), entry->d_name, 0) == 0;
        close(fd);
    }
    if (d) closedir(d);
    return ok;
}

/* Removes huggingface_hub's other records of a commit. */
static bool remove_commit_metadata(int repository, const char *commit)
{
    char name[REPOSITORY_REVISION_BYTES + 8];
    uint64_t bytes = 0;
    snprintf(name, sizeof(name), "%s.json", commit);
    DIR *missing = open_directory_at(repository, ".no_exist"),
        *trees = open_directory_at(repository, "trees");
    bool ok = (!missing || walk_tree(dirfd(missing), commit, 0, true, &bytes)) &&
              (!trees || walk_tree(dirfd(trees), name, MAX_DEPTH, true, &bytes));
    if (missing) closedir(missing);
    if (trees) closedir(trees);
    return ok;
}

/* Counts the bytes of a snapshot and, if `removing`, deletes it. References go first: while one
 * exists, its snapshot must be complete. */
static bool walk_snapshot(const struct hub_removal *r, bool removing, uint64_t *bytes,
                          size_t *n_others)
{
    struct blob_names own = {0}, others = {0};
    uint64_t links = 0;
    int repository = open(r->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool ok = repository >= 0 && collect_all_blobs(repository, r->commit, &own, &others, n_others);
    DIR *snapshots = ok ? open_directory_at(repository, "snapshots") : NULL;
    if (ok && removing)
        ok = snapshots && remove_refs(repository, "refs", r->commit, 0) &&
             remove_commit_metadata(repository, r->commit);
    if (ok && snapshots) ok = walk_tree(dirfd(snapshots), r->commit, 0, removing, &links);
    ok = ok && remove_blobs(repository, &own, &others, removing, bytes);
    *bytes += links;
    int problem = errno;
    if (snapshots) closedir(snapshots);
    if (repository >= 0) close(repository);
    blob_names_free(&own);
    blob_names_free(&others);
    errno = problem;
    return ok;
}

/* ---- downloads in progress ---- */

static bool is_locked(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    return locked;
}

static bool is_being_downloaded(const char *directory)
{
    char path[EY_MAX_PATH];
    const char *name = strrchr(directory, '/');
    bool locked = false;
    if (snprintf(path, sizeof(path), "%.*s/.locks%s", (int)(name - directory), directory, name) >=
        (int)sizeof(path))
        return false;
    DIR *d = open_directory_at(AT_FDCWD, path);
    for (struct dirent *entry; d && !locked && (entry = readdir(d));)
        locked = !is_dots(entry->d_name) && is_locked(dirfd(d), entry->d_name);
    if (d) closedir(d);
    return locked;
}

/* ---- from planning to removing ---- */

static bool fail_removal(const struct hub_removal *r, ey_err *e)
{
    return ey_fail(e, EY_IO, "%.500s cannot be removed: %s", r->directory, strerror(errno));
}

/* Refuses a repository folder that is a link: the user may have moved it to another disk. */
static bool check_directory(const struct hub_removal *r, const struct repository *repository,
                            ey_err *e)
{
    struct stat st;
    if (lstat(r->directory, &st) != 0)
        return ey_fail(
            e, EY_NOT_FOUND,
            "%s is not in the Hugging Face cache (%.300s); eyelet list shows the models that are",
            repository->name, r->directory);
    if (S_ISLNK(st.st_mode))
        return ey_fail(
            e, EY_BAD_REQUEST,
            "%.500s is a link, and eyelet does not follow links to remove files; remove it by hand",
            r->directory);
    if (!S_ISDIR(st.st_mode))
        return ey_fail(e, EY_BAD_REQUEST, "%.500s is not a directory", r->directory);
    return !is_being_downloaded(r->directory) ||
           ey_fail(e, EY_BUSY, "%s is being downloaded now; stop that first", repository->name);
}

bool hub_plan_removal(struct hub_removal *out, const struct repository *repository, ey_err *e)
{
    char cache[EY_MAX_PATH], snapshot[EY_MAX_PATH];
    size_t n_others = 0;
    *out = (struct hub_removal){0};
    if (repository->tag[0])
        return ey_fail(
            e, EY_BAD_REQUEST,
            "eyelet rm removes a repository with all of its files; name it without \":%s\"",
            repository->tag);
    if (!hf_cache_directory(cache, e)) return false;
    if (!repository_directory(out->directory, cache, repository->name))
        return ey_fail(e, EY_BAD_REQUEST, "%.200s…: the path of the cache is too long", cache);
    if (!check_directory(out, repository, e)) return false;
    if (!repository->revision_given)
        return walk_tree(AT_FDCWD, out->directory, 0, false, &out->bytes) || fail_removal(out, e);
    if (!model_snapshot_find(snapshot, repository, e))
        return ey_fail(e, EY_NOT_FOUND, "%s: revision %s is not in the Hugging Face cache (%.300s)",
                       repository->name, repository->revision, out->directory);
    snprintf(out->commit, sizeof(out->commit), "%s", strrchr(snapshot, '/') + 1);
    if (!walk_snapshot(out, false, &out->bytes, &n_others)) return fail_removal(out, e);
    if (n_others) return true;
    out->commit[0] = 0;
    out->bytes = 0; /* the only snapshot: remove everything */
    return walk_tree(AT_FDCWD, out->directory, 0, false, &out->bytes) || fail_removal(out, e);
}

bool hub_remove(const struct hub_removal *r, ey_err *e)
{
    uint64_t bytes = 0;
    size_t n_others;
    if (r->commit[0]) return walk_snapshot(r, true, &bytes, &n_others) || fail_removal(r, e);
    return walk_tree(AT_FDCWD, r->directory, 0, true, &bytes) || fail_removal(r, e);
}
