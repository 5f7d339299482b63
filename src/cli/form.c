/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas, patterns and choices → grammars. */
#include "cli/form.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "cli/input.h"

bool form_open_schema(struct form *form, const char *path, ey_err *e)
{
    struct input file;
    *form = (struct form){0};
    if (!input_read(&file, path, EY_MAX_SCHEMA_BYTES, e)) return false;
    form->text = file.bytes; /* a NUL in it is no JSON */
    form->told.schema = form->text;
    return ey_grammar_of_schema(&form->grammar, form->text, file.size, e) ||
           ey_fail_within(e, "%s", path);
}

bool form_open_regex(struct form *form, const char *pattern, ey_err *e)
{
    *form = (struct form){.told.regex = pattern};
    return ey_grammar_of_regex(&form->grammar, pattern, strlen(pattern), e);
}

bool form_open_choices(struct form *form, const char *const *choices, size_t n, ey_err *e)
{
    *form = (struct form){.told = {.choices = choices, .n_choices = n}};
    return ey_grammar_of_choices(&form->grammar, choices, n, e);
}

void form_close(struct form *form)
{
    ey_grammar_free(&form->grammar);
    free(form->text);
    *form = (struct form){0};
}
