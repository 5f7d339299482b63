/* SPDX-License-Identifier: Apache-2.0 */
/* Writes files atomically: creates them in a temporary folder next to the destination and renames
 * it when everything is on disk. */
#ifndef EY_OUTPUT_FOLDER_H
#define EY_OUTPUT_FOLDER_H

#include "base/err.h"
#include "base/limits.h"

enum { OUTPUT_MAX_FILES = 256, OUTPUT_NAME_BYTES = 256 };

struct output_folder {
    char temporary[EY_MAX_PATH]; /* the temporary folder; "" if there is none */
    char name[OUTPUT_MAX_FILES][OUTPUT_NAME_BYTES];
    int n;
    uint64_t bytes; /* bytes to be written, for messages */
};

/* Creates the temporary folder for `path`, which must not exist. Fails if the disk has less than
 * `bytes` free. */
bool output_folder_open(struct output_folder *o, const char *path, uint64_t bytes, ey_err *e);
/* Creates a file in the folder. Returns its descriptor, or -1 on failure. */
int output_file_create(struct output_folder *o, const char *name, ey_err *e);
/* Fails with errno's text, or with advice if the disk is full. Returns false. */
bool output_fail(const struct output_folder *o, const char *name, ey_err *e);
/* Flushes and closes the file that was created last. If `ok` is false, writing the file has failed,
 * and this function fails with errno's text. */
bool output_file_finish(struct output_folder *o, int fd, bool ok, ey_err *e);
bool output_file_write(struct output_folder *o, const char *name, const char *text, size_t n,
                       ey_err *e);
/* Renames the folder to `path`. */
bool output_folder_commit(struct output_folder *o, const char *path, ey_err *e);
/* Renames file i to `path`. */
bool output_file_commit(struct output_folder *o, int i, const char *path, ey_err *e);
/* Removes all files that were not committed. */
void output_folder_close(struct output_folder *o);

#endif
