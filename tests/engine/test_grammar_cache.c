/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar cache: entries are found by their source, bounded in number and bytes, and evicted
 * least recently used first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "constrain/constrain.h"
#include "eyelet.h"

static ey_grammar_cache *open_cache(size_t bytes)
{
    ey_grammar_cache *cache = NULL;
    ey_err e;
    if (!ey_grammar_cache_open(&cache, bytes, &e)) fail_msg("%s", e.text);
    return cache;
}

/* Compiles a pattern and adds it to the cache. The returned address identifies the grammar. */
static const ey_grammar *keep(ey_grammar_cache *cache, const char *pattern)
{
    ey_grammar *g = NULL;
    ey_err e;
    if (!ey_grammar_of_regex(&g, pattern, strlen(pattern), &e)) fail_msg("%s", e.text);
    ey_grammar_cache_put(cache, pattern, strlen(pattern), g);
    const ey_grammar *address = g;
    ey_grammar_free(&g);
    return address;
}

static const ey_grammar *found(ey_grammar_cache *cache, const char *pattern)
{
    ey_grammar *g = ey_grammar_cache_find(cache, pattern, strlen(pattern));
    const ey_grammar *address = g;
    ey_grammar_free(&g);
    return address;
}

static void cached_grammars_are_found(void **state)
{
    (void)state;
    ey_grammar_cache *cache = open_cache(1 << 20);
    assert_null(found(cache, "a+"));
    const ey_grammar *a = keep(cache, "a+"), *b = keep(cache, "b+");
    assert_ptr_equal(found(cache, "a+"), a);
    assert_ptr_equal(found(cache, "b+"), b);
    assert_null(found(cache, "a"));
    assert_null(found(cache, ""));
    keep(cache, "a+"); /* adding it again keeps the first */
    assert_ptr_equal(found(cache, "a+"), a);
    ey_grammar *held = ey_grammar_cache_find(cache, "a+", 2);
    ey_grammar_cache_close(&cache);
    assert_true(grammar_bytes(held) > 0); /* a reference keeps it alive */
    ey_grammar_free(&held);
}

static void number_is_bounded(void **state)
{
    (void)state;
    enum { MORE = EY_GRAMMAR_CACHE_ENTRIES + 10 };
    ey_grammar_cache *cache = open_cache(64 << 20);
    char pattern[MORE][16];
    for (int i = 0; i < MORE; i++) {
        snprintf(pattern[i], sizeof(pattern[i]), "x{%d}", i + 1);
        keep(cache, pattern[i]);
        assert_non_null(found(cache, pattern[0])); /* used, so it stays */
    }
    int n = 0;
    for (int i = 0; i < MORE; i++)
        n += found(cache, pattern[i]) != NULL;
    assert_int_equal(n, EY_GRAMMAR_CACHE_ENTRIES);
    assert_null(found(cache, pattern[1]));
    assert_non_null(found(cache, pattern[MORE - 1]));
    ey_grammar_cache_close(&cache);
}

static void bytes_are_bounded(void **state)
{
    (void)state;
    ey_grammar *g = NULL;
    ey_err e;
    assert_true(ey_grammar_of_regex(&g, "[a-z]{50}a", 10, &e));
    size_t one = grammar_bytes(g) + 10;
    ey_grammar_free(&g);
    ey_grammar_cache *cache = open_cache(3 * one + one / 2);
    static const char *const patterns[] = {"[a-z]{50}a", "[a-z]{50}b", "[a-z]{50}c", "[a-z]{50}d"};
    for (int i = 0; i < 4; i++)
        keep(cache, patterns[i]);
    assert_null(found(cache, patterns[0]));
    for (int i = 1; i < 4; i++)
        assert_non_null(found(cache, patterns[i]));
    keep(cache, "[a-z]{250}"); /* as large as the whole cache: it is not added, or evicts others */
    int n = 0;
    for (int i = 1; i < 4; i++)
        n += found(cache, patterns[i]) != NULL;
    assert_true(found(cache, "[a-z]{250}") ? n < 3 : n == 3);
    ey_grammar_cache_close(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cached_grammars_are_found),
        cmocka_unit_test(number_is_bounded),
        cmocka_unit_test(bytes_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
