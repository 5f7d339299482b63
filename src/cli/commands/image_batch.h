/* SPDX-License-Identifier: Apache-2.0 */
/* What caption and extract have in common: one load, a line for each image, and one that fails
 * does not stop the rest. */
#ifndef EY_CLI_EACH_PICTURE_H
#define EY_CLI_EACH_PICTURE_H

#include "base/text/json_writer.h"
#include "cli/options/response_format.h"
#include "cli/cli_engine.h"

struct image_batch {
    const char *prompt;
    const struct cli_response_format *format; /* NULL: answers are free */
    bool greedy;
    bool json; /* lines are JSON, those of images that fail too */
    /* Prints an answer's line. load_seconds is 0 but for the first, so that the times of all lines
     * add up. False: the answer is none, which *e says. */
    bool (*print)(struct cli_engine *s, const struct input *image, const ey_answer *answer,
                  double load_seconds, ey_err *e);
};

/* Puts the prompt with each of the arguments as the image. Returns the exit status. */
int image_batch_run(const struct options *o, const struct image_batch *batch);

enum { MAX_JSON_LINE = 64 << 20 };

/* Ends the line, writes and frees it. */
void batch_print_line(struct cli_engine *s, struct buf *line);
/* {"image": NAME: a line in JSON, to which members are added before it is closed. */
struct json_writer batch_open_json_line(struct buf *line, const char *name);

#endif
