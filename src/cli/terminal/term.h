/* SPDX-License-Identifier: Apache-2.0 */
/* Standard output for answers, guarded: a terminal gets no control characters, a reader that went
 * away ends the program quietly, a full disk is an error. */
#ifndef EY_CLI_TERM_H
#define EY_CLI_TERM_H

#include <stdio.h>

#include "base/buf.h"

struct term {
    FILE *file;
    bool terminal;
    bool closed; /* the reader is gone, or writing failed: later writes do nothing */
    int error;   /* errno of the failed write; 0 or EPIPE are no reason to complain */
};

struct term term_stdout(void);
/* Columns of the terminal at this descriptor; 80 where it does not say. */
int terminal_columns(int descriptor);
/* Writes UTF-8 text and flushes it. On a terminal control characters but newline and tab are left
 * out. */
bool term_write(struct term *t, const char *text, size_t n);
/* Writes bytes as they are: escape sequences of our own. */
bool term_write_raw(struct term *t, const char *bytes, size_t n);
/* Flushes; returns `status`, or 1 with a message when not everything could be written. */
int term_finish(struct term *t, int status);

/* Appends a file's name, with bytes that are no printable character as \xNN. */
void term_add_name(struct buf *out, const char *name);
/* Prints "eyelet: " and the message to standard error; returns the exit status of its code. */
int term_complain(const ey_err *e);

#endif
