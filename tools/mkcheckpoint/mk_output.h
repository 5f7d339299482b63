/* SPDX-License-Identifier: Apache-2.0 */
/* The directory a checkpoint is written to; remembers what it made, to take it away when something
 * fails. */
#ifndef MK_OUTPUT_H
#define MK_OUTPUT_H

#include "base/err.h"

enum { MK_MAX_FILES = 96, MK_MAX_SHARDS = 64 };

/* From here on an interrupt (^C, SIGTERM) is an error that the writers find, so that half a
 * checkpoint is removed; so is a file grown past a limit of the system. */
void output_catch_signals(void);
bool output_interrupted(void);

struct mk_output {
    const char *dir;
    bool made_dir;
    char names[MK_MAX_FILES][64];
    int n_files;
};

/* Makes the directory; one that exists must be empty, and `needed` bytes must be free. */
bool output_open(struct mk_output *o, const char *dir, uint64_t needed, ey_err *e);
/* A folder in it, for files that come later. */
bool output_folder(struct mk_output *o, const char *name, ey_err *e);
/* A new file, or -1. The caller closes it. */
int output_create(struct mk_output *o, const char *name, ey_err *e);
bool output_text(struct mk_output *o, const char *name, const char *text, size_t n, ey_err *e);
/* Removes every file made and the directory, if output_open made it. */
void output_discard(struct mk_output *o);

#endif
