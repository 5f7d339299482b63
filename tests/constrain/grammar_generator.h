/* SPDX-License-Identifier: Apache-2.0 */
/* Generates random schemas and regular expressions from a seed. */
#ifndef EY_TESTS_CONSTRAIN_GRAMMAR_GENERATOR_H
#define EY_TESTS_CONSTRAIN_GRAMMAR_GENERATOR_H

#include <stdint.h>

#include <json-c/json.h>

#include "base/buf.h"

uint32_t random_below(uint64_t *state, uint32_t n);
/* A schema of the supported keywords; only a few of them accept no value. */
json_object *random_schema(uint64_t *state);
/* Appends a regular expression that has the same meaning in PCRE2 and in eyelet. */
void random_pattern(uint64_t *state, struct buf *out, int depth);

#endif
