/* SPDX-License-Identifier: Apache-2.0 */
/* An index of a folder's images in an SQLite file. For each image, it stores the path in the
 * folder, the file's size and time, which tell whether the file has changed, and the vector or the
 * reason why there is none. One program at a time may write the index, and any number may read it.
 */
#ifndef EY_CLI_SEARCH_INDEX_H
#define EY_CLI_SEARCH_INDEX_H

#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"

struct search_index;

/* The model that made all vectors of an index, and their length. */
struct index_kind {
    char model[EY_MAX_PATH]; /* "" if the index is new */
    int dimensions;
};

/* Opens the file, and creates it if `writes`. If the file is not an index, fails and leaves it
 * unchanged. */
bool search_index_open(struct search_index **index, const char *path, bool writes, ey_err *e);
/* Closes the index. Changes that were not committed are lost. */
void search_index_close(struct search_index **index);

/* Reads the kind that search_index_restart() has set. */
bool search_index_kind(struct search_index *index, struct index_kind *kind, ey_err *e);
/* Removes all images and sets the kind of the vectors that will be added. */
bool search_index_restart(struct search_index *index, const struct index_kind *kind, ey_err *e);

/* Writes to *has whether the index has the image with this size in bytes and this time in
 * nanoseconds since 1970. */
bool search_index_has(struct search_index *index, const char *path, int64_t size, int64_t time,
                      bool *has, ey_err *e);
/* Adds or replaces an image. If `vector` is NULL, `why` says why there is none.
 * search_index_commit() stores additions and removals. */
bool search_index_put(struct search_index *index, const char *path, int64_t size, int64_t time,
                      const float *vector, int dimensions, const char *why, ey_err *e);
bool search_index_remove(struct search_index *index, const char *path, ey_err *e);
bool search_index_commit(struct search_index *index, ey_err *e);

/* Called for every image; `vector` is NULL if it has none. Returns false to stop. */
typedef bool index_visit_fn(void *user, const char *path, const float *vector, int dimensions);
bool search_index_each(struct search_index *index, index_visit_fn *visit, void *user, ey_err *e);

#endif
