/* SPDX-License-Identifier: Apache-2.0 */
/* An index of a folder's images in a file of SQLite: of each its path in the folder, the size and
 * time by which a change is seen, and a vector, or why there is none. Written by one program at a
 * time, read by any number. */
#ifndef EY_CLI_SEARCH_INDEX_H
#define EY_CLI_SEARCH_INDEX_H

#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"

struct search_index;

/* What its vectors were made with; an index has one kind. */
struct index_kind {
    char model[EY_MAX_PATH]; /* "": nothing was indexed yet */
    int dimensions;
};

/* Opens the file, or makes it where `writes`. Something else under that name is an error and stays
 * as it is. */
bool search_index_open(struct search_index **index, const char *path, bool writes, ey_err *e);
/* What was not committed is lost. */
void search_index_close(struct search_index **index);

bool search_index_kind(struct search_index *index, struct index_kind *kind, ey_err *e);
/* Forgets all images, and says what the next ones are made with. */
bool search_index_restart(struct search_index *index, const struct index_kind *kind, ey_err *e);

/* Whether an image is there, of this size and time (nanoseconds since 1970). */
bool search_index_has(struct search_index *index, const char *path, int64_t size, int64_t time,
                      bool *has, ey_err *e);
/* Puts an image in, in the place of an older one. vector NULL: `why` there is none. */
bool search_index_put(struct search_index *index, const char *path, int64_t size, int64_t time,
                      const float *vector, int dimensions, const char *why, ey_err *e);
bool search_index_remove(struct search_index *index, const char *path, ey_err *e);
bool search_index_commit(struct search_index *index, ey_err *e);

/* Visits every image by its path; vector NULL: it has none. False from visit ends it. */
typedef bool index_visit_fn(void *user, const char *path, const float *vector, int dimensions);
bool search_index_each(struct search_index *index, index_visit_fn *visit, void *user, ey_err *e);

#endif
