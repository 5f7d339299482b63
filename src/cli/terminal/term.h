/* SPDX-License-Identifier: Apache-2.0 */
/* Standard output for answers. A terminal gets no control characters, a closed pipe ends the
 * program quietly, and a full disk is an error. */
#ifndef EY_CLI_TERM_H
#define EY_CLI_TERM_H

#include <stdatomic.h>
#include <stdio.h>

#include "base/buf.h"

struct term {
    FILE *file;
    bool terminal;
    atomic_bool closed; /* the reader is gone or a write failed; later writes do nothing */
    int error;          /* errno of the failed write; EPIPE is not reported */
};

/* Returns standard output for use with the functions below. */
struct term term_stdout(void);
/* Returns whether `name` is standard output: "-", /dev/stdout, or the file it is redirected to. */
bool term_is_stdout(const char *name);
/* Returns the columns of the terminal at this descriptor, or 80 if they are unknown. */
int terminal_columns(int descriptor);
/* Writes UTF-8 text and flushes it. A terminal gets no control characters other than newline and
 * tab. */
bool term_write(struct term *t, const char *text, size_t n);
/* Writes bytes unchanged, for our own escape sequences. */
bool term_write_raw(struct term *t, const char *bytes, size_t n);
/* Flushes and returns `status`. If not everything could be written, prints a message and returns 1.
 */
int term_finish(struct term *t, int status);

/* Appends a file's name; bytes that are not printable characters become \xNN. */
void term_add_name(struct buf *out, const char *name);
/* Prints "eyelet: " and the error's message to standard error and returns the exit status of its
 * code. */
int term_complain(const ey_err *e);

#endif
