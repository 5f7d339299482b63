/* SPDX-License-Identifier: Apache-2.0 */
/* One file on its way into blobs/: a lock that huggingface_hub honours too, the bytes so far, a
 * record of which, and the hash.
 *
 * Until it is whole it is blobs/ETAG.eyelet.incomplete, with holes, so under no name that another
 * tool would continue from its length; the record is blobs/ETAG.ranges.incomplete. `hf cache prune`
 * removes both. */
#ifndef EY_HUB_BLOB_H
#define EY_HUB_BLOB_H

#include "hub/byte_ranges.h"
#include "hub/etag_hash.h"
#include "hub/hub.h"

/* Fails with what errno says of a path in the cache that cannot be `doing` (made, written, ...); of
 * a full disk, what to do. Returns false. */
bool hub_cache_fail(const char *path, const char *doing, ey_err *e);

struct blob {
    const struct hub_model *model;
    const struct hub_file *file;
    int fd, lock;
    struct byte_ranges ranges;
    struct etag_hash *hash;
    uint64_t hashed;
    double recorded; /* seconds_now() of the last record */
    bool resumed;    /* some of it was here */
};

/* Bytes of a file that the cache has, whole or in part. */
uint64_t blob_bytes_present(const struct hub_model *model, const struct hub_file *file);
/* Bytes of the disk that the rest of it will take. */
uint64_t blob_disk_needed(const struct hub_model *model, const struct hub_file *file);

/* Makes the folders that blobs and locks lie in. */
bool blob_make_directories(const struct hub_model *model, ey_err *e);

enum blob_state { BLOB_FAILED, BLOB_OPEN, BLOB_COMPLETE, BLOB_BUSY };
/* OPEN: it is ours to fill. WHOLE: it is there already. BUSY: somebody else downloads it now. */
enum blob_state blob_open(struct blob *b, const struct hub_model *model,
                          const struct hub_file *file, ey_err *e);
/* Keeps what is there, with its record, and releases the lock. */
void blob_close(struct blob *b);

bool blob_write(struct blob *b, uint64_t at, const char *bytes, size_t n, ey_err *e);
/* Hashes at most `most` bytes of what is there in one piece from the beginning; false when there
 * was nothing to do. */
bool blob_hash(struct blob *b, size_t most, ey_err *e, bool *ok);
/* All bytes are there and hashed. */
bool blob_is_complete(const struct blob *b);
/* Writes the record, at most once in `seconds`. */
void blob_record(struct blob *b, double seconds);
enum blob_end { BLOB_END_FAILED, BLOB_END_STORED, BLOB_END_MISMATCH };
/* For a complete blob. STORED: its hash is right, and it has its name. MISMATCH: its hash is
 * `found` and it was deleted. */
enum blob_end blob_finish(struct blob *b, char found[HUB_ETAG_BYTES + 1], ey_err *e);

#endif
