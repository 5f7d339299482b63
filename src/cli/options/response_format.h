/* SPDX-License-Identifier: Apache-2.0 */
/* The format that an answer must have: a schema, a regular expression or a list of choices. It is
 * kept as a grammar for our engine, and as text to be sent to a server. */
#ifndef EY_CLI_OPTIONS_RESPONSE_FORMAT_H
#define EY_CLI_OPTIONS_RESPONSE_FORMAT_H

#include "base/err.h"
#include "client/remote.h"
#include "eyelet/grammar.h"

struct cli_response_format {
    ey_grammar *grammar; /* NULL if the answer is unconstrained */
    struct remote_response_format remote;
    char *text; /* the text of the schema, owned */
};

/* Reads a schema from the file `path`, or from standard input for "-". If `path` begins with a
 * brace, it is the schema itself. Errors name the file. */
bool response_format_open_schema(struct cli_response_format *format, const char *path, ey_err *e);
/* Makes a schema from a list of names such as "shop, date, total:number". The type after the colon
 * is string (the default), number, integer, boolean or list. */
bool response_format_open_fields(struct cli_response_format *format, const char *fields, ey_err *e);
/* These two borrow their arguments until the format is closed. */
bool response_format_open_regex(struct cli_response_format *format, const char *pattern, ey_err *e);
bool response_format_open_choices(struct cli_response_format *format, const char *const *choices,
                                  size_t n, ey_err *e);
void response_format_close(struct cli_response_format *format);

#endif
