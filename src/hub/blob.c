/* SPDX-License-Identifier: Apache-2.0 */
/* A blob during its download. The record never claims more bytes than were written, so if the
 * program is killed, only bytes that arrived after the last record are lost. If a power cut loses
 * recorded bytes, the hash detects it. */
#include "hub/blob.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

#define PARTIAL ".eyelet.incomplete"
#define RECORD ".ranges.incomplete"
#define NEW_RECORD ".new.ranges.incomplete"

/* ---- paths ---- */

/* Writes DIRECTORY/blobs/ETAG + ending. */
static bool blob_path(char out[EY_MAX_PATH], const struct hub_model *model,
                      const struct hub_file *file, const char *ending, ey_err *e)
{
    if (snprintf(out, EY_MAX_PATH, "%s/blobs/%s%s", model->directory, file->etag, ending) <
        EY_MAX_PATH)
        return true;
    return ey_fail(e, EY_BAD_REQUEST, "%.200s…: the path of the cache is too long",
                   model->directory);
}

bool hub_cache_fail(const char *path, const char *done, ey_err *e)
{
    if (errno_is_disk_full())
        return ey_fail(e, EY_IO,
                       "%.300s: the disk is full; make room (eyelet list, eyelet rm) or set "
                       "HF_HOME to a larger one, then run the same command again to resume",
                       path);
    return ey_fail(e, EY_IO, "%.300s cannot be %s: %s", path, done, strerror(errno));
}

/* On a read-only disk, mkdir() of an existing folder may fail with an error other than EEXIST. */
bool hub_cache_make_directory(const char *path, ey_err *e)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST) return true;
    int problem = errno;
    if (path_is_directory(path)) return true;
    errno = problem;
    return hub_cache_fail(path, "created", e);
}

static bool make_directory_tree(const char *path, ey_err *e)
{
    char text[EY_MAX_PATH];
    snprintf(text, sizeof(text), "%s", path);
    for (char *slash = text + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        if (!hub_cache_make_directory(text, e)) return false;
        *slash = '/';
    }
    return hub_cache_make_directory(text, e);
}

/* Writes CACHE/.locks/models--owner--name for the repository CACHE/models--owner--name. */
static bool lock_directory(char out[EY_MAX_PATH], const struct hub_model *model, ey_err *e)
{
    const char *name = strrchr(model->directory, '/');
    int n = snprintf(out, EY_MAX_PATH, "%.*s/.locks%s", (int)(name - model->directory),
                     model->directory, name);
    return n < EY_MAX_PATH - HUB_ETAG_BYTES - 8 ||
           ey_fail(e, EY_BAD_REQUEST, "%.200s…: the path of the cache is too long",
                   model->directory);
}

bool blob_make_directories(const struct hub_model *model, ey_err *e)
{
    char blobs[EY_MAX_PATH], locks[EY_MAX_PATH];
    return path_join(blobs, model->directory, "blobs", e) && make_directory_tree(blobs, e) &&
           lock_directory(locks, model, e) && make_directory_tree(locks, e);
}

/* ---- the lock ---- */

/* Whether the locked file is still the one at `path`: it may have been removed in between. */
static bool is_same_file(int fd, const char *path)
{
    struct stat ours, there;
    return fstat(fd, &ours) == 0 && stat(path, &there) == 0 && ours.st_ino == there.st_ino &&
           ours.st_dev == there.st_dev;
}

/* Locks a blob and returns the lock's descriptor. Returns -1 if another process has the lock, or
 * with *failed set if the lock cannot be opened. On a file system without locks, the user must not
 * run two pulls at the same time. */
static int lock_blob(const struct hub_model *model, const struct hub_file *file, bool *failed,
                     ey_err *e)
{
    char folder[EY_MAX_PATH], path[EY_MAX_PATH];
    *failed = true;
    if (!lock_directory(folder, model, e)) return -1;
    snprintf(path, sizeof(path), "%.4000s/%s.lock", folder, file->etag);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0664);
    if (fd < 0) return hub_cache_fail(path, "opened", e), -1;
    *failed = false;
    bool taken = flock(fd, LOCK_EX | LOCK_NB) == 0 || errno == ENOTSUP || errno == ENOLCK ||
                 errno == ENOSYS;
    if (taken && is_same_file(fd, path)) return fd;
    close(fd);
    return -1;
}

/* ---- partial files ---- */

static bool has_size(const char *path, uint64_t size)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == size;
}

/* On file systems without links, the snapshot has the file itself, and there is no blob. */
static bool is_blob_complete(const struct hub_model *model, const struct hub_file *file)
{
    char path[EY_MAX_PATH];
    if (blob_path(path, model, file, "", NULL) && has_size(path, file->size)) return true;
    int n = snprintf(path, sizeof(path), "%s/snapshots/%s/%s", model->directory, model->commit,
                     file->name);
    return n < (int)sizeof(path) && has_size(path, file->size);
}

static bool read_record(struct byte_ranges *done, const struct hub_model *model,
                        const struct hub_file *file)
{
    char path[EY_MAX_PATH], *text = NULL;
    size_t n = 0;
    *done = (struct byte_ranges){0};
    if (!blob_path(path, model, file, PARTIAL, NULL) || !has_size(path, file->size) ||
        !blob_path(path, model, file, RECORD, NULL))
        return false;
    bool ok = path_is_file(path) &&
              file_read_regular(&text, &n, path, BYTE_RANGES_TEXT_BYTES, NULL) &&
              strlen(text) == n && byte_ranges_read(done, file->size, text);
    free(text);
    return ok;
}

uint64_t blob_bytes_present(const struct hub_model *model, const struct hub_file *file)
{
    struct byte_ranges done;
    if (is_blob_complete(model, file)) return file->size;
    return read_record(&done, model, file) ? byte_ranges_total(&done) : 0;
}

/* Subtracts the space that the partial file takes: an earlier start of the download reserved it. */
uint64_t blob_disk_needed(const struct hub_model *model, const struct hub_file *file)
{
    enum { BLOCK = 512 };
    char path[EY_MAX_PATH];
    struct stat st;
    if (is_blob_complete(model, file)) return 0;
    uint64_t taken = blob_path(path, model, file, PARTIAL, NULL) && stat(path, &st) == 0
                         ? (uint64_t)st.st_blocks * BLOCK
                         : 0;
    return taken < file->size ? file->size - taken : 0;
}

/* ---- open, close ---- */

/* Removes partial files, including those that a killed program left next to a complete blob. */
static void remove_partial_files(const struct blob *b)
{
    static const char *const endings[] = {RECORD, NEW_RECORD, PARTIAL};
    char path[EY_MAX_PATH];
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
        if (blob_path(path, b->model, b->file, endings[i], NULL)) unlink(path);
}

/* Opens the partial file and reserves its disk space, if the file system supports that, so that a
 * full disk is reported before the download. */
static bool open_partial(struct blob *b, ey_err *e)
{
    char path[EY_MAX_PATH];
    b->resumed = read_record(&b->ranges, b->model, b->file) && b->ranges.n;
    if (!b->resumed) remove_partial_files(b);
    if (!blob_path(path, b->model, b->file, PARTIAL, e)) return false;
    b->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (b->fd < 0) return hub_cache_fail(path, "written", e);
    bool full = b->file->size && fallocate(b->fd, 0, 0, (off_t)b->file->size) != 0 &&
                errno_is_disk_full();
    if (full || ftruncate(b->fd, (off_t)b->file->size) != 0)
        return hub_cache_fail(path, "written", e);
    return true;
}

enum blob_state blob_open(struct blob *b, const struct hub_model *model,
                          const struct hub_file *file, ey_err *e)
{
    bool failed;
    *b = (struct blob){.model = model, .file = file, .fd = -1, .lock = -1};
    if (is_blob_complete(model, file)) return remove_partial_files(b), BLOB_COMPLETE;
    b->lock = lock_blob(model, file, &failed, e);
    if (b->lock < 0) return failed ? BLOB_FAILED : BLOB_BUSY;
    if (is_blob_complete(model, file)) return remove_partial_files(b), blob_close(b), BLOB_COMPLETE;
    if (open_partial(b, e) && etag_hash_open(&b->hash, file->etag, file->size, e)) return BLOB_OPEN;
    blob_close(b);
    return BLOB_FAILED;
}

void blob_close(struct blob *b)
{
    if (b->fd >= 0) {
        blob_record(b, 0);
        close(b->fd);
    }
    if (b->lock >= 0) close(b->lock);
    etag_hash_close(&b->hash);
    b->fd = b->lock = -1;
}

/* ---- writing ---- */

/* Bytes that were hashed are not written again: without ranges, a broken download restarts from 0,
 * and its new bytes would not be in the hash. */
bool blob_write(struct blob *b, uint64_t at, const char *bytes, size_t n, ey_err *e)
{
    char path[EY_MAX_PATH];
    const uint64_t hashed = at < b->hashed ? b->hashed - at : 0;
    const size_t skipped = hashed < n ? (size_t)hashed : n;
    at += skipped;
    bytes += skipped;
    n -= skipped;
    if (!file_write_at(b->fd, bytes, n, at))
        return blob_path(path, b->model, b->file, PARTIAL, e) && hub_cache_fail(path, "written", e);
    return byte_ranges_add(&b->ranges, at, at + n) ||
           ey_fail(e, EY_INTERNAL, "%s: more than %d byte ranges", b->file->name, MAX_BYTE_RANGES);
}

bool blob_hash(struct blob *b, size_t most, ey_err *e, bool *ok)
{
    char bytes[256 << 10], path[EY_MAX_PATH];
    uint64_t prefix = byte_ranges_prefix(&b->ranges),
             end = prefix - b->hashed > most ? b->hashed + most : prefix;
    *ok = true;
    if (b->hashed >= end) return false;
    while (b->hashed < end) {
        size_t n = end - b->hashed < sizeof(bytes) ? (size_t)(end - b->hashed) : sizeof(bytes);
        ssize_t got = pread(b->fd, bytes, n, (off_t)b->hashed);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            if (!got) errno = EIO;
            *ok = blob_path(path, b->model, b->file, PARTIAL, e) && hub_cache_fail(path, "read", e);
            return true;
        }
        etag_hash_add(b->hash, bytes, (size_t)got);
        b->hashed += (uint64_t)got;
    }
    return true;
}

bool blob_is_complete(const struct blob *b)
{
    return b->hashed == b->file->size;
}

/* Writes a new file and renames it, so that a record is never incomplete. Failures are ignored:
 * with an older record, a killed download only loses more bytes. */
void blob_record(struct blob *b, double seconds)
{
    char path[EY_MAX_PATH], new_path[EY_MAX_PATH], text[BYTE_RANGES_TEXT_BYTES];
    double now = seconds_now();
    if (seconds > 0 && now - b->recorded < seconds) return;
    b->recorded = now;
    if (!blob_path(path, b->model, b->file, RECORD, NULL) ||
        !blob_path(new_path, b->model, b->file, NEW_RECORD, NULL))
        return;
    size_t n = byte_ranges_write(&b->ranges, b->file->size, text);
    int fd = open(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    bool ok = fd >= 0 && file_write(fd, text, n);
    if (fd >= 0) close(fd);
    if (ok)
        rename(new_path, path);
    else
        unlink(new_path);
}

/* ---- finish ---- */

static bool rename_to_blob(struct blob *b, ey_err *e)
{
    char partial[EY_MAX_PATH], path[EY_MAX_PATH];
    if (!blob_path(partial, b->model, b->file, PARTIAL, e) ||
        !blob_path(path, b->model, b->file, "", e))
        return false;
    if (fdatasync(b->fd) != 0 || rename(partial, path) != 0)
        return hub_cache_fail(partial, "written", e);
    remove_partial_files(b);
    return true;
}

enum blob_end blob_finish(struct blob *b, char found[HUB_ETAG_BYTES + 1], ey_err *e)
{
    etag_hash_finish(b->hash, found);
    bool right = strcmp(found, b->file->etag) == 0;
    if (right && !rename_to_blob(b, e)) return BLOB_END_FAILED;
    if (!right) remove_partial_files(b);
    close(b->fd);
    b->fd = -1; /* keeps blob_close() from writing a record */
    blob_close(b);
    return right ? BLOB_END_STORED : BLOB_END_MISMATCH;
}
