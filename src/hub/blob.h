/* SPDX-License-Identifier: Apache-2.0 */
/* A file being downloaded into blobs/: a lock that huggingface_hub also honors, the bytes so far, a
 * record of their ranges, and the hash.
 *
 * Until the file is complete, its bytes are in the sparse file blobs/ETAG.eyelet.incomplete, a name
 * that no other tool takes for a download to resume at the file's length; the record is
 * blobs/ETAG.ranges.incomplete. `hf cache prune` removes both. */
#ifndef EY_HUB_BLOB_H
#define EY_HUB_BLOB_H

#include "hub/byte_ranges.h"
#include "hub/etag_hash.h"
#include "hub/hub.h"

/* Fails with errno's text for a path in the cache that cannot be `doing` (made, written, ...), and
 * with advice if the disk is full. Returns false. */
bool hub_cache_fail(const char *path, const char *doing, ey_err *e);

struct blob {
    const struct hub_model *model;
    const struct hub_file *file;
    int fd, lock;
    struct byte_ranges ranges;
    struct etag_hash *hash;
    uint64_t hashed;
    double recorded; /* when the record was last written; seconds_now() */
    bool resumed;    /* a part of it existed before */
};

/* Bytes of a file that the cache has, complete or partial. */
uint64_t blob_bytes_present(const struct hub_model *model, const struct hub_file *file);
/* Disk space that the rest of the file will take. */
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
 * hash. */
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
