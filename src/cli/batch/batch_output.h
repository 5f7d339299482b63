/* SPDX-License-Identifier: Apache-2.0 */
/* Where the answers about many images go: lines, JSON lines or CSV on standard output or in a file,
 * or a text file beside each image; and which images an earlier run has done. */
#ifndef EY_CLI_BATCH_OUTPUT_H
#define EY_CLI_BATCH_OUTPUT_H

#include "cli/options/options.h"
#include "cli/terminal/term.h"

enum batch_form { BATCH_TEXT, BATCH_JSON, BATCH_CSV, BATCH_SIDECAR };

struct batch_output {
    enum batch_form form;
    struct term *out;       /* standard output, or `file` */
    struct term file;       /* of --output */
    const char *sidecar;    /* ending of files beside images: "txt" or "json" */
    bool resume, overwrite; /* --resume, --overwrite */
    char **done;            /* [n_done] images of an earlier run, sorted */
    size_t n_done;
};

/* Checks that the options go together, opens --output and, with --resume, reads what it has. `out`
 * is standard output, borrowed. */
bool batch_output_open(struct batch_output *b, const struct options *o, struct term *out,
                       const char *sidecar, ey_err *e);
/* Free also after an error. False: not all could be written. */
bool batch_output_close(struct batch_output *b);

/* An earlier run has done this image. */
bool batch_is_done(const struct batch_output *b, const char *image);
/* Before an image is asked about: its sidecar must not be somebody's file. */
bool batch_check_sidecar(const struct batch_output *b, const char *image, ey_err *e);
/* Writes text[n] into the file beside the image, at once and whole. */
bool batch_write_sidecar(const struct batch_output *b, const char *image, const char *text,
                         size_t n, ey_err *e);

/* A CSV cell: quoted where it must be (RFC 4180). */
void batch_add_cell(struct buf *line, const char *text, size_t n);

#endif
