/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas, patterns and choices → grammars. */
#include "cli/options/response_format.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "cli/options/input.h"

bool response_format_open_schema(struct cli_response_format *format, const char *path, ey_err *e)
{
    struct input file;
    *format = (struct cli_response_format){0};
    if (!input_read(&file, path, EY_MAX_SCHEMA_BYTES, e)) return false;
    format->text = file.bytes; /* a NUL in it is no JSON */
    format->remote.schema = format->text;
    return ey_grammar_of_schema(&format->grammar, format->text, file.size, e) ||
           ey_fail_within(e, "%s", path);
}

bool response_format_open_regex(struct cli_response_format *format, const char *pattern, ey_err *e)
{
    *format = (struct cli_response_format){.remote.regex = pattern};
    return ey_grammar_of_regex(&format->grammar, pattern, strlen(pattern), e);
}

bool response_format_open_choices(struct cli_response_format *format, const char *const *choices,
                                  size_t n, ey_err *e)
{
    *format = (struct cli_response_format){.remote = {.choices = choices, .n_choices = n}};
    return ey_grammar_of_choices(&format->grammar, choices, n, e);
}

void response_format_close(struct cli_response_format *format)
{
    ey_grammar_free(&format->grammar);
    free(format->text);
    *format = (struct cli_response_format){0};
}
