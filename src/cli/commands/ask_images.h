/* SPDX-License-Identifier: Apache-2.0 */
/* One question about images: shared by ask, scene and read. */
#ifndef EY_CLI_COMMANDS_ASK_IMAGES_H
#define EY_CLI_COMMANDS_ASK_IMAGES_H

#include "cli/options/response_format.h"
#include "cli/options/options.h"

/* Asks `text` about the images that the first n_images arguments name, and prints the answer or the
 * error. `format` may be NULL. Returns the exit status. */
int ask_about_images(const struct options *o, size_t n_images, const char *text, bool greedy,
                     const struct cli_response_format *format);

#endif
