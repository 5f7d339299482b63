/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer must be: a schema, a regular expression or a list of choices, compiled for our
 * engine and as it stands for a server's. */
#ifndef EY_CLI_FORM_H
#define EY_CLI_FORM_H

#include "base/err.h"
#include "client/remote.h"
#include "eyelet/grammar.h"

struct cli_response_format {
    ey_grammar *grammar; /* NULL: the answer is free */
    struct remote_response_format remote;
    char *text; /* of the schema */
};

/* A schema from a file, "-" for standard input, or as it stands, where `path` begins with a brace.
 * What is wrong with it is said with the file's name. */
bool response_format_open_schema(struct cli_response_format *format, const char *path, ey_err *e);
/* A schema of "shop, date, total:number": names, each with a type (string, the default, number,
 * integer, boolean, list). */
bool response_format_open_fields(struct cli_response_format *format, const char *fields, ey_err *e);
/* Borrow what they are given. */
bool response_format_open_regex(struct cli_response_format *format, const char *pattern, ey_err *e);
bool response_format_open_choices(struct cli_response_format *format, const char *const *choices,
                                  size_t n, ey_err *e);
void response_format_close(struct cli_response_format *format);

#endif
