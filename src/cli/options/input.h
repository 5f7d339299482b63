/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the images and texts that a command line names: files, http(s) URLs, or "-" for standard
 * input. */
#ifndef EY_CLI_INPUT_H
#define EY_CLI_INPUT_H

#include "base/err.h"

struct input {
    const char *name; /* as typed */
    char *bytes;      /* owned */
    size_t size;
    char *own_name; /* the name if we own it, or NULL if it is borrowed */
};

/* Reads a file or, for "-", standard input, of at most `max` bytes. An http(s) URL is fetched as
 * eyelet serve fetches images: from public hosts only, and within limits of time and size. Under
 * WSL the Windows path C:\x\y is read from /mnt/c/x/y. */
bool input_read(struct input *in, const char *name, size_t max, ey_err *e);
/* The list {"-"}, for a command that names no image while standard input may be one. */
extern char *const input_from_stdin[1];
/* Returns whether standard input is a file or a pipe, and so may have data for us. */
bool input_stdin_is_sent(void);
/* What standard input has for a command that names no image. */
enum sent_input { SENT_NOTHING, SENT_IMAGE, SENT_OTHER, SENT_LATE };
/* Reads standard input into *in under the name "-" if it is a file or a pipe that begins as an
 * image does. SENT_LATE means that a pipe sent nothing for SENT_SECONDS. A file that is not an
 * image is rewound, so that another program can read it. */
enum { SENT_SECONDS = 5 };
bool input_read_sent_image(struct input *in, enum sent_input *sent, size_t max, ey_err *e);
void input_free(struct input *in);

/* Fails if the list of images has a directory, or standard input twice. Reads nothing. */
bool input_check_images(char *const *names, size_t n, const char *command, ey_err *e);
/* Fails if one of the first n - 1 arguments looks like a word of a question without quotation
 * marks: it names no file and has no dot, slash, backslash or hyphen. */
bool input_check_quotes(char *const *args, size_t n, const char *command, ey_err *e);
/* Fails if the text is not UTF-8; `what` names it in the error. */
bool input_check_text(const char *text, size_t n, const char *what, ey_err *e);

#endif
