/* SPDX-License-Identifier: Apache-2.0 */
/* Asks one question about each of many images. The model is loaded once, a GPU runs several images
 * at the same time, answers come in order, and a failing image does not stop the others. */
#ifndef EY_CLI_IMAGE_BATCH_H
#define EY_CLI_IMAGE_BATCH_H

#include "base/text/json_writer.h"
#include "cli/cli_engine.h"
#include "cli/options/response_format.h"

struct image_batch;

/* An answer to be printed. */
struct batch_answer {
    const struct image_batch *batch;
    struct cli_engine *cli;
    const struct input *image;
    const ey_answer *answer;
    size_t n_pages; /* of a document that the answer is about; 1 for an image */
    bool many;      /* the answer is one of several */
};

/* What is printed for a document of several pages: one answer about all pages together, the answers
 * about single pages joined into one, or an answer for each page (--each). */
enum batch_pages { PAGES_TOGETHER, PAGES_JOINED, PAGES_EACH };

struct image_batch {
    const char *command; /* as typed, for messages */
    const char *prompt;
    const struct cli_response_format *format; /* NULL if answers are unconstrained */
    bool greedy;
    enum batch_pages pages;
    const char *field;   /* the answer's name in JSON and CSV */
    const char *sidecar; /* file name extension of sidecars */
    bool lines_only;     /* always JSON lines unless --csv or --sidecar is given */
    /* Each callback may be NULL. `check` fails for an answer that is not valid. */
    bool (*check)(const struct cli_engine *cli, const ey_answer *answer, ey_err *e);
    bool (*add_json)(struct json_writer *w, const struct batch_answer *a, ey_err *e);
    /* Appends the content of the sidecar; NULL writes the answer's text. */
    bool (*add_sidecar)(struct buf *text, const struct batch_answer *a, ey_err *e);
    const char *csv_columns; /* header after "image,"; NULL for the field's name */
    /* Appends whole rows, with their line ends. */
    bool (*add_csv)(struct buf *line, const struct batch_answer *a, ey_err *e);
    void (*print_text)(struct term *out, const struct batch_answer *a);
};

/* Returns whether the arguments are a batch: several images, a folder, a document, or an option
 * that only makes sense for many images. */
bool batch_wanted(const struct options *o, char *const *args, size_t n);

/* Asks about each image that args[n] name and returns the exit status. */
int image_batch_run(const struct options *o, char *const *args, size_t n,
                    const struct image_batch *batch);

#endif
