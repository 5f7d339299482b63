/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of grammars: the demo model's vocabulary, and whether a grammar accepts a
 * text. */
#ifndef EY_TESTS_CONSTRAIN_FIXTURE_H
#define EY_TESTS_CONSTRAIN_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "constrain/constrain.h"

/* Opened at the first call. */
const struct tokenizer *demo_tokenizer(void);
const struct vocabulary *demo_vocabulary(void);
void close_fixture(void);

enum { MAX_TEXTS = 16 };

/* Checks texts that the grammar must accept (`in`) and refuse (`out`); NULL ends a list. Texts are
 * fed byte by byte and token by token. */
void check_texts(struct grammar *g, const char *name, const char *const *in,
                 const char *const *out);
struct grammar *schema_ok(const char *schema);
struct grammar *regex_ok(const char *pattern);

int run_schema_tests(void);
int run_regex_tests(void);
int run_matcher_tests(void);
int run_limit_tests(void);

#endif
