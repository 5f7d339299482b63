/* SPDX-License-Identifier: Apache-2.0 */
/* A step of an answer allocates nothing, whether its masks are new or cached. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/allocations.h"
#include "constrain/random_walks.h"

static const char schema[] =
    "{\"type\": \"array\", \"items\": {\"type\": \"object\", \"properties\": {\"a\": {\"type\": "
    "\"string\", \"maxLength\": 30}, \"b\": {\"type\": \"string\", \"pattern\":"
    " \"^[^,]{1,40}$\"}, \"c\": {\"type\": [\"number\", \"string\"]}, \"d\": {\"$ref\": \"#\"}}, "
    "\"required\": [\"a\", \"b\"], \"additionalProperties\": true}, \"maxItems\": 9}";

static void a_step_allocates_nothing(void **state)
{
    struct tokenizer *tok = NULL;
    struct vocabulary *v = NULL;
    struct grammar *g = NULL;
    struct matcher *c = NULL;
    ey_err e;
    uint64_t random = 1;
    (void)state;
    assert_true(tokenizer_open(&tok, "models/demo", &e) &&
                vocabulary_open(&v, tok, tokenizer_size(tok), 8, &e));
    assert_true(grammar_of_schema(&g, schema, strlen(schema), &e) && matcher_open(&c, g, v, &e));
    struct buf text = buf_with_max(1 << 20);
    assert_true(buf_reserve(&text, 1 << 19));
    int ended = 0;
    allocations_start(NULL);
    void *volatile one = malloc(1); /* volatile, else the compiler removes the call */
    free(one);
    assert_int_equal(allocations_so_far(), 1); /* the counter works */
    for (int i = 0; i < 100; i++)
        ended += random_walk(c, tok, &random, 60, &text) == WALK_ENDED;
    assert_int_equal(allocations_stop(), 1);
    assert_true(ended > 50);
    buf_free(&text);
    matcher_close(&c);
    grammar_release(&g);
    vocabulary_close(&v);
    tokenizer_close(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_step_allocates_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
