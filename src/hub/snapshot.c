/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the links snapshots/COMMIT/NAME → ../../blobs/ETAG and the file refs/REVISION as
 * huggingface_hub does (file_download.py). */
#include "hub/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "hub/blob.h"

/* Creates the folders between `below` and the last part of `path`: a reference may be pr/3. */
static bool make_parent_directories(char *path, const char *below, ey_err *e)
{
    bool ok = true;
    for (char *slash = path + strlen(below); ok && (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        ok = hub_cache_make_directory(path, e);
        *slash = '/';
    }
    return ok;
}

/* ---- links ---- */

static bool is_link_to(const char *path, const char *target)
{
    char text[EY_MAX_PATH];
    ssize_t n = readlink(path, text, sizeof(text) - 1);
    return n >= 0 && (size_t)n == strlen(target) && memcmp(text, target, (size_t)n) == 0;
}

/* Whether a later file of the model has the same content and needs the same blob. */
static bool blob_is_needed_again(const struct hub_model *model, const struct hub_file *file)
{
    for (const struct hub_file *later = file + 1; later < model->files + model->n; later++)
        if (strcmp(later->etag, file->etag) == 0) return true;
    return false;
}

static bool copy_bytes(int from, int to)
{
    char bytes[1 << 16];
    ssize_t n;
    while ((n = read(from, bytes, sizeof(bytes))) != 0) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 || !file_write(to, bytes, (size_t)n)) return false;
    }
    return true;
}

/* Copies a blob by way of new_path, so that an incomplete copy never has the final name. */
static bool copy_blob(const char *blob, const char *path, const char *new_path)
{
    int from = open(blob, O_RDONLY | O_CLOEXEC),
        to = open(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    bool ok = from >= 0 && to >= 0 && copy_bytes(from, to);
    if (from >= 0) close(from);
    if (to >= 0 && close(to) != 0) ok = false;
    return ok && rename(new_path, path) == 0;
}

/* On file systems without symbolic links (exFAT, some shares) the blob itself becomes the
 * snapshot's file, or a copy of it if another file needs the blob, too. */
static bool move_blob_to_snapshot(const struct hub_model *model, const struct hub_file *file,
                                  const char *path, const char *new_path, ey_err *e)
{
    char blob[EY_MAX_PATH];
    int n = snprintf(blob, sizeof(blob), "%s/blobs/%s", model->directory, file->etag);
    bool ok = n < (int)sizeof(blob) &&
              (blob_is_needed_again(model, file) ? copy_blob(blob, path, new_path)
                                                 : rename(blob, path) == 0);
    if (ok) return true;
    hub_cache_fail(path, "written", e);
    unlink(new_path);
    return false;
}

/* Makes the snapshot's link to a blob. Atomically replaces another link or a damaged file, but
 * keeps a regular file of the right size: on file systems without links, that is the blob. */
static bool write_link(const struct hub_model *model, const struct hub_file *file,
                       const char *folder, ey_err *e)
{
    char path[EY_MAX_PATH], new_path[EY_MAX_PATH], target[HUB_ETAG_BYTES + 16];
    struct stat st;
    snprintf(target, sizeof(target), "%s../../blobs/%s", strchr(file->name, '/') ? "../" : "",
             file->etag);
    if (!path_join(path, folder, file->name, e) || !make_parent_directories(path, folder, e))
        return false;
    if (is_link_to(path, target) ||
        (lstat(path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == file->size))
        return true;
    int n = snprintf(new_path, sizeof(new_path), "%s.%ld.tmp", path, (long)getpid());
    if (n >= (int)sizeof(new_path))
        return ey_fail(e, EY_BAD_REQUEST, "%.200s…: the path of the cache is too long", path);
    unlink(new_path);
    if (symlink(target, new_path) != 0)
        return errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS
                   ? move_blob_to_snapshot(model, file, path, new_path, e)
                   : hub_cache_fail(path, "written", e);
    if (rename(new_path, path) == 0) return true;
    hub_cache_fail(path, "written", e);
    unlink(new_path);
    return false;
}

/* ---- the reference ---- */

static bool is_ref_to(const char *path, const char *commit)
{
    char *text = NULL;
    size_t n = 0;
    const bool same = path_is_file(path) &&
                      file_read_regular(&text, &n, path, HUB_COMMIT_BYTES, NULL) &&
                      strcmp(text, commit) == 0;
    free(text);
    return same;
}

/* Does not rewrite a reference that is right, because the disk may be read-only or full. */
static bool write_ref(const struct hub_model *model, ey_err *e)
{
    char path[EY_MAX_PATH], new_path[EY_MAX_PATH];
    if (strcmp(model->repository.revision, model->commit) == 0) return true;
    int n = snprintf(path, sizeof(path), "%s/refs/%s", model->directory,
                     model->repository.revision);
    int n_new = snprintf(new_path, sizeof(new_path), "%s.%ld.tmp", path, (long)getpid());
    if (n >= (int)sizeof(path) || n_new >= (int)sizeof(new_path))
        return ey_fail(e, EY_BAD_REQUEST, "%.200s…: the path of the cache is too long", path);
    if (is_ref_to(path, model->commit)) return true;
    if (!make_parent_directories(path, model->directory, e)) return false;
    int fd = open(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    bool ok = fd >= 0 && file_write(fd, model->commit, HUB_COMMIT_BYTES);
    if (fd >= 0 && close(fd) != 0) ok = false;
    if (ok && rename(new_path, path) == 0) return true;
    hub_cache_fail(path, "written", e);
    unlink(new_path);
    return false;
}

/* Writes CACHEDIR.TAG, which makes backup programs skip the folder (bford.info/cachedir). */
static void write_cachedir_tag(const struct hub_model *model)
{
    static const char text[] =
        "Signature: 8a477f597d28d172789f06886806bc55\n# This file is a cache directory tag created "
        "by eyelet.\n"
        "# For information about cache directory tags, see:\n#\thttps://bford.info/cachedir/\n";
    char path[EY_MAX_PATH];
    const char *end = strrchr(model->directory, '/');
    if (snprintf(path, sizeof(path), "%.*s/CACHEDIR.TAG", (int)(end - model->directory),
                 model->directory) >= (int)sizeof(path))
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return;
    if (!file_write(fd, text, sizeof(text) - 1)) unlink(path);
    close(fd);
}

bool snapshot_write(const struct hub_model *model, ey_err *e)
{
    char snapshots[EY_MAX_PATH], folder[EY_MAX_PATH];
    bool ok = path_join(snapshots, model->directory, "snapshots", e) &&
              hub_cache_make_directory(snapshots, e) &&
              path_join(folder, snapshots, model->commit, e) && hub_cache_make_directory(folder, e);
    for (size_t i = 0; ok && i < model->n; i++)
        ok = write_link(model, &model->files[i], folder, e);
    if (ok) write_cachedir_tag(model);
    return ok && write_ref(model, e);
}
