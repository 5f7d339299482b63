/* SPDX-License-Identifier: Apache-2.0 */
/* A file during its download into blobs/: a lock that huggingface_hub honors too, the bytes that
 * have arrived, a record of their ranges, and the hash.
 *
 * An incomplete file is the sparse file blobs/ETAG.eyelet.incomplete. The name differs from that of
 * other tools, which resume a download at the file's length. The record is
 * blobs/ETAG.ranges.incomplete. `hf cache prune` removes both. */
#ifndef EY_HUB_BLOB_H
#define EY_HUB_BLOB_H

#include "hub/byte_ranges.h"
#include "hub/etag_hash.h"
#include "hub/hub.h"

/* Fails with "PATH cannot be created: " and errno's text, or with advice if the disk is full.
 * `done` is "created", "written" and so on. Returns false. */
bool hub_cache_fail(const char *path, const char *done, ey_err *e);
/* Creates a folder unless it exists. */
bool hub_cache_make_directory(const char *path, ey_err *e);

struct blob {
    const struct hub_model *model;
    const struct hub_file *file;
    int fd, lock;
    struct byte_ranges ranges;
    struct etag_hash *hash;
    uint64_t hashed;
    double recorded; /* when the record was last written; seconds_now() */
    bool resumed;    /* a partial file existed before */
};

/* Returns how many bytes of a file the cache has, complete or partial. */
uint64_t blob_bytes_present(const struct hub_model *model, const struct hub_file *file);
/* Returns the disk space that the rest of the file will take. */
uint64_t blob_disk_needed(const struct hub_model *model, const struct hub_file *file);

/* Makes the folders of blobs and locks. */
bool blob_make_directories(const struct hub_model *model, ey_err *e);

enum blob_state { BLOB_FAILED, BLOB_OPEN, BLOB_COMPLETE, BLOB_BUSY };
/* Opens a blob. OPEN: it is locked, and the caller fills it. COMPLETE: it was complete already.
 * BUSY: another process downloads it. */
enum blob_state blob_open(struct blob *b, const struct hub_model *model,
                          const struct hub_file *file, ey_err *e);
/* Writes the record, keeps the partial file, and releases the lock. */
void blob_close(struct blob *b);

bool blob_write(struct blob *b, uint64_t at, const char *bytes, size_t n, ey_err *e);
/* Hashes up to `most` more bytes of the contiguous beginning. Returns false if there was nothing to
 * hash. Sets *ok to false if reading fails. */
bool blob_hash(struct blob *b, size_t most, ey_err *e, bool *ok);
/* Whether all bytes are present and hashed. */
bool blob_is_complete(const struct blob *b);
/* Writes the record, at most once per `seconds`. */
void blob_record(struct blob *b, double seconds);
enum blob_end { BLOB_END_FAILED, BLOB_END_STORED, BLOB_END_MISMATCH };
/* Finishes a complete blob. STORED: its hash matched and it has its final name. MISMATCH: its hash
 * is `found` and it was deleted. */
enum blob_end blob_finish(struct blob *b, char found[HUB_ETAG_BYTES + 1], ey_err *e);

#endif
