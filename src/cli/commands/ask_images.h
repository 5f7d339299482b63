/* SPDX-License-Identifier: Apache-2.0 */
/* What ask, scene and read have in common. */
#ifndef EY_CLI_ASKING_H
#define EY_CLI_ASKING_H

#include "cli/options/response_format.h"
#include "cli/options/options.h"

/* Puts `text` with the first n_images arguments as images; prints the answer, or complains.
 * `format` may be NULL. Returns the exit status. */
int ask_about_images(const struct options *o, size_t n_images, const char *text, bool greedy,
                     const struct cli_response_format *format);

#endif
