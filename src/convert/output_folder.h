/* SPDX-License-Identifier: Apache-2.0 */
/* Files that appear all at once under their names, or not at all: they are written into a folder
 * beside these and moved when all is on the disk. */
#ifndef EY_OUTPUT_FOLDER_H
#define EY_OUTPUT_FOLDER_H

#include "base/err.h"
#include "base/limits.h"

enum { OUTPUT_MAX_FILES = 256, OUTPUT_NAME_BYTES = 96 };

struct output_folder {
    char temporary[EY_MAX_PATH]; /* the folder; "": there is none */
    char name[OUTPUT_MAX_FILES][OUTPUT_NAME_BYTES];
    int n;
    uint64_t bytes; /* that will be written, for messages */
};

/* Nothing may be at `path`, where there is room for `bytes`. */
bool output_folder_open(struct output_folder *o, const char *path, uint64_t bytes, ey_err *e);
/* A new file in it; -1: *e says why. */
int output_file_create(struct output_folder *o, const char *name, ey_err *e);
/* Fails for the reason that errno tells. */
bool output_fail(const struct output_folder *o, const char *name, ey_err *e);
/* Ends what was created last: `ok` false is an error that errno tells. */
bool output_file_finish(struct output_folder *o, int fd, bool ok, ey_err *e);
bool output_file_write(struct output_folder *o, const char *name, const char *text, size_t n,
                       ey_err *e);
/* The folder becomes `path`. */
bool output_folder_commit(struct output_folder *o, const char *path, ey_err *e);
/* File i becomes `path`. */
bool output_file_commit(struct output_folder *o, int i, const char *path, ey_err *e);
/* Removes what has not been moved. */
void output_folder_close(struct output_folder *o);

#endif
