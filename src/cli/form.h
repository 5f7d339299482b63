/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer must be: a schema, a regular expression or a list of choices, compiled for our
 * engine and as it stands for a server's. */
#ifndef EY_CLI_FORM_H
#define EY_CLI_FORM_H

#include "base/err.h"
#include "client/remote.h"

struct form {
    ey_grammar *grammar; /* NULL: the answer is free */
    struct remote_form told;
    char *text; /* of the schema */
};

/* A schema from a file, or "-" for standard input. What is wrong with it is said with the file's
 * name. */
bool form_open_schema(struct form *form, const char *path, ey_err *e);
/* Borrow what they are given. */
bool form_open_regex(struct form *form, const char *pattern, ey_err *e);
bool form_open_choices(struct form *form, const char *const *choices, size_t n, ey_err *e);
void form_close(struct form *form);

#endif
