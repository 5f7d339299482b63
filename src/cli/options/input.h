/* SPDX-License-Identifier: Apache-2.0 */
/* Images and texts that a person names: files, or "-" for standard input. */
#ifndef EY_CLI_INPUT_H
#define EY_CLI_INPUT_H

#include "base/err.h"

struct input {
    const char *name; /* as typed */
    char *bytes;      /* ours */
    size_t size;
};

/* Reads a file or, for "-", standard input, of at most `max` bytes. */
bool input_read(struct input *in, const char *name, size_t max, ey_err *e);
void input_free(struct input *in);

/* What is wrong with a list of images before any is read: a directory among them, standard input
 * twice. */
bool input_check_images(char *const *names, size_t n, const char *command, ey_err *e);
/* Text must be UTF-8; `what` names it. */
bool input_check_text(const char *text, size_t n, const char *what, ey_err *e);

#endif
