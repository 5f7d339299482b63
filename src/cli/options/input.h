/* SPDX-License-Identifier: Apache-2.0 */
/* Images and texts that a person names: files, http(s) addresses, or "-" for standard input. */
#ifndef EY_CLI_INPUT_H
#define EY_CLI_INPUT_H

#include "base/err.h"

struct input {
    const char *name; /* as typed */
    char *bytes;      /* ours */
    size_t size;
    char *own_name; /* ours: the name is this; NULL: it is another's */
};

/* Reads a file or, for "-", standard input, of at most `max` bytes. An http(s) address is fetched
 * by the server's rules for media: from public hosts, within time and size. A Windows path, C:\x\y,
 * is /mnt/c/x/y where WSL has that. */
bool input_read(struct input *in, const char *name, size_t max, ey_err *e);
/* {"-"}: what commands that need an image read where none is named and one may have been sent. */
extern char *const input_from_stdin[1];
/* Standard input is a file or a pipe: something may have been sent there. */
bool input_stdin_is_sent(void);
/* If an image lies ready on standard input (a file or a pipe whose first bytes are an image's), it
 * is read into *in, named "-". Never waits for the first byte. *found: there was one. */
bool input_read_sent_image(struct input *in, bool *found, size_t max, ey_err *e);
void input_free(struct input *in);

/* What is wrong with a list of images before any is read: a directory among them, standard input
 * twice. */
bool input_check_images(char *const *names, size_t n, const char *command, ey_err *e);
/* Words of a question that was not put in quotation marks stand where images are named: names of no
 * file, without a dot or slash, among the first n - 1 of n arguments. */
bool input_check_quotes(char *const *args, size_t n, const char *command, ey_err *e);
/* Text must be UTF-8; `what` names it. */
bool input_check_text(const char *text, size_t n, const char *what, ey_err *e);

#endif
