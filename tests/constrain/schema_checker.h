/* SPDX-License-Identifier: Apache-2.0 */
/* An independent JSON schema validator for the keywords of src/constrain. */
#ifndef EY_TESTS_CONSTRAIN_SCHEMA_CHECKER_H
#define EY_TESTS_CONSTRAIN_SCHEMA_CHECKER_H

#include <stdbool.h>
#include <stddef.h>

#include <json-c/json.h>

/* Returns false with the reason in why[200]. */
bool checker_valid(json_object *schema, json_object *value, char *why);
/* Whether the text is JSON and valid under the schema. */
bool checker_valid_text(json_object *schema, const char *text, size_t n, char *why);
/* Whether the pattern matches the whole text or, with `anywhere`, a part of it. */
bool checker_matches(const char *pattern, const char *text, size_t n, bool anywhere);

#endif
