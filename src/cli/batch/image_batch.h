/* SPDX-License-Identifier: Apache-2.0 */
/* One question about each of many images: one load, several at once on a GPU, answers in order; an
 * image that fails does not stop the rest. */
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
    size_t n_pages; /* of a document, that the answer is about; 1: an image */
    bool many;      /* there are other images */
};

/* A document of several pages gets one answer, about its pages together or put together of answers
 * about each; or one answer a page. --each means the last. */
enum batch_pages { PAGES_TOGETHER, PAGES_JOINED, PAGES_EACH };

struct image_batch {
    const char *command; /* as typed, for messages */
    const char *prompt;
    const struct cli_response_format *format; /* NULL: answers are free */
    bool greedy;
    enum batch_pages pages;
    const char *field;   /* the answer's name in JSON and CSV */
    const char *sidecar; /* ending of files beside images */
    bool lines_only;     /* without --csv or --sidecar, JSON lines whatever the options say */
    /* Each of these may be NULL. False: the answer is none, which *e says. */
    bool (*check)(const struct cli_engine *cli, const ey_answer *answer, ey_err *e);
    bool (*add_json)(struct json_writer *w, const struct batch_answer *a, ey_err *e);
    /* What a file beside the image has; NULL: the answer's text. */
    bool (*add_sidecar)(struct buf *text, const struct batch_answer *a, ey_err *e);
    const char *csv_columns; /* behind "image"; NULL: the field */
    bool (*add_csv)(struct buf *line, const struct batch_answer *a, ey_err *e); /* whole rows */
    void (*print_text)(struct term *out, const struct batch_answer *a);
};

/* More than one image, a folder, a document, or an option that only makes sense for many. */
bool batch_wanted(const struct options *o, char *const *args, size_t n);

/* Asks about each of the images that args[n] name. Returns the exit status. */
int image_batch_run(const struct options *o, char *const *args, size_t n,
                    const struct image_batch *batch);

#endif
