/* SPDX-License-Identifier: Apache-2.0 */
/* The directory to which a checkpoint is written. It remembers the files that it creates, to remove
 * them if something fails. */
#ifndef EY_TOOLS_MKCHECKPOINT_MK_OUTPUT_H
#define EY_TOOLS_MKCHECKPOINT_MK_OUTPUT_H

#include "base/err.h"

enum { MK_MAX_FILES = 96, MK_MAX_SHARDS = 64 };

/* Turns signals into errors from now on, so that an incomplete checkpoint is removed: SIGINT and
 * SIGTERM make output_interrupted() true, and SIGXFSZ makes writing fail. */
void output_catch_signals(void);
bool output_interrupted(void);

struct mk_output {
    const char *dir;
    bool made_dir;
    char names[MK_MAX_FILES][64];
    int n_files;
};

/* Creates the directory, or uses an empty one. Fails if less than `needed` bytes are free. */
bool output_open(struct mk_output *o, const char *dir, uint64_t needed, ey_err *e);
/* Creates a folder in the directory. */
bool output_folder(struct mk_output *o, const char *name, ey_err *e);
/* Creates a file and returns its descriptor, which the caller closes. Fails with -1. */
int output_create(struct mk_output *o, const char *name, ey_err *e);
bool output_text(struct mk_output *o, const char *name, const char *text, size_t n, ey_err *e);
/* Removes all created files, and the directory if output_open() created it. */
void output_discard(struct mk_output *o);

#endif
