/* SPDX-License-Identifier: Apache-2.0 */
/* Writes files atomically: into a temporary folder beside the destination, renamed when everything
 * is on disk. */
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

/* Makes the temporary folder for `path`, which must not exist. Fails if the disk has no room for
 * `bytes`. */
bool output_folder_open(struct output_folder *o, const char *path, uint64_t bytes, ey_err *e);
/* Creates a file in the folder. Returns its descriptor. Fails with -1. */
int output_file_create(struct output_folder *o, const char *name, ey_err *e);
/* Fails with errno's text, or advice if the disk is full. Returns false. */
bool output_fail(const struct output_folder *o, const char *name, ey_err *e);
/* Flushes and closes the last created file. If `ok` is false, fails with errno's text. */
bool output_file_finish(struct output_folder *o, int fd, bool ok, ey_err *e);
bool output_file_write(struct output_folder *o, const char *name, const char *text, size_t n,
                       ey_err *e);
/* Renames the folder to `path`. */
bool output_folder_commit(struct output_folder *o, const char *path, ey_err *e);
/* Renames file i to `path`. */
bool output_file_commit(struct output_folder *o, int i, const char *path, ey_err *e);
/* Removes whatever was not committed. */
void output_folder_close(struct output_folder *o);

#endif
