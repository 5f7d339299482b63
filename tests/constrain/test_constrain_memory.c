/* A step of an answer takes no memory: masks of all kinds, met for the first time and again. The allocator's entry points
 * are defined here, so every call of the process goes through the count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "constrain/walks.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#endif

static int n_allocations;

#ifdef SANITIZED /* the allocator is the sanitizer's, and calls this */
void __sanitizer_malloc_hook(const volatile void *p, size_t n);
__attribute__((visibility("default"))) void __sanitizer_malloc_hook(const volatile void *p, size_t n)
{
    (void)p, (void)n;
    n_allocations++;
}
#else
#define SHOWN __attribute__((visibility("default")))
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);

SHOWN void *malloc(size_t n)
{
    n_allocations++;
    return __libc_malloc(n);
}

SHOWN void *calloc(size_t n, size_t size)
{
    n_allocations++;
    return __libc_calloc(n, size);
}

SHOWN void *realloc(void *p, size_t n)
{
    n_allocations++;
    return __libc_realloc(p, n);
}
#endif

static const char schema[] =
    "{\"type\": \"array\", \"items\": {\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"string\", \"maxLength\": 30}, \"b\": {\"type\": \"string\", \"pattern\":"
    " \"^[^,]{1,40}$\"}, \"c\": {\"type\": [\"number\", \"string\"]}, \"d\": {\"$ref\": \"#\"}}, \"required\": [\"a\", \"b\"], \"additionalProperties\": true}, \"maxItems\": 9}";

static void a_step_takes_no_memory(void **state)
{
    struct tokenizer *tok = NULL;
    struct vocabulary *v = NULL;
    struct grammar *g = NULL;
    struct constraint *c = NULL;
    ey_err e;
    uint64_t random = 1;
    (void)state;
    assert_true(tokenizer_open(&tok, "models/demo", &e) && vocabulary_open(&v, tok, tokenizer_size(tok), 8, &e));
    assert_true(grammar_of_schema(&g, schema, strlen(schema), &e) && constraint_open(&c, g, v, &e));
    struct buf text = buf_with_max(1 << 20);
    assert_true(buf_reserve(&text, 1 << 19));
    int before = n_allocations, ended = 0;
    assert_true(before > 0);
    for (int i = 0; i < 100; i++) ended += random_walk(c, tok, &random, 60, &text) == WALK_ENDED;
    assert_int_equal(n_allocations, before);
    assert_true(ended > 50);
    buf_free(&text);
    constraint_close(&c);
    grammar_release(&g);
    vocabulary_close(&v);
    tokenizer_close(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_step_takes_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
