/* SPDX-License-Identifier: Apache-2.0 */
/* The output of a batch: text, JSON lines or CSV on standard output or in a file, or a sidecar file
 * for each image. With --resume it also knows which images an earlier run has done. */
#ifndef EY_CLI_BATCH_OUTPUT_H
#define EY_CLI_BATCH_OUTPUT_H

#include "cli/options/options.h"
#include "cli/terminal/term.h"

enum batch_form { BATCH_TEXT, BATCH_JSON, BATCH_CSV, BATCH_SIDECAR };

struct batch_output {
    enum batch_form form;
    struct term *out;       /* standard output, or `file` */
    struct term file;       /* of --output */
    const char *path;       /* of `file`; borrowed */
    bool waits;             /* batch_output_begin has not yet emptied `file` */
    bool created;           /* `file` did not exist before */
    struct buf early;       /* lines that wait for batch_output_begin */
    const char *sidecar;    /* file name extension of sidecars, "txt" or "json" */
    bool resume, overwrite; /* --resume, --overwrite */
    char **done;            /* [n_done] images that an earlier run has done, sorted */
    size_t n_done;
    bool has_header; /* `file` has the CSV header of an earlier run */
};

/* Checks that the options are compatible, opens --output and, with --resume, reads it. Borrows
 * the options' texts and `out`, which is standard output. */
bool batch_output_open(struct batch_output *b, const struct options *o, struct term *out,
                       const char *sidecar, ey_err *e);
/* Empties --output, unless --resume continues it. Called after the model is loaded, so that a
 * failure to load leaves the file unchanged. */
bool batch_output_begin(struct batch_output *b, ey_err *e);
/* Writes text[n] to `out`, or keeps it until batch_output_begin. */
void batch_write(struct batch_output *b, const char *text, size_t n);
/* Closes the output, also after an error. Returns false if not everything could be written. */
bool batch_output_close(struct batch_output *b);

/* Returns the name for JSON: `name` itself or, if that is not UTF-8, a copy in *escaped that has
 * \xNN for each bad byte. */
const char *batch_json_name(struct buf *escaped, const char *name);
/* Returns whether an earlier run has done this image. */
bool batch_is_done(const struct batch_output *b, const char *image);
/* Fails if the image's sidecar exists and --overwrite was not given. Called before the model is
 * asked, so that it computes no answer that cannot be written. */
bool batch_check_sidecar(const struct batch_output *b, const char *image, ey_err *e);
/* Writes text[n] to the image's sidecar, atomically. */
bool batch_write_sidecar(const struct batch_output *b, const char *image, const char *text,
                         size_t n, ey_err *e);

/* Appends a CSV cell, quoted if RFC 4180 requires it. */
void batch_add_cell(struct buf *line, const char *text, size_t n);

#endif
