/* SPDX-License-Identifier: Apache-2.0 */
/* A second opinion: whether a value is valid by a JSON schema. Written for the keywords that
 * src/constrain knows, on its own. */
#ifndef EY_TESTS_CONSTRAIN_SCHEMA_CHECKER_H
#define EY_TESTS_CONSTRAIN_SCHEMA_CHECKER_H

#include <stdbool.h>
#include <stddef.h>

#include <json-c/json.h>

/* False, with the reason in why[200]. */
bool checker_valid(json_object *schema, json_object *value, char *why);
/* Whether the text is JSON and valid by the schema. */
bool checker_valid_text(json_object *schema, const char *text, size_t n, char *why);
/* Whether the pattern matches: from the first to the last character, or anywhere. */
bool checker_matches(const char *pattern, const char *text, size_t n, bool anywhere);

#endif
