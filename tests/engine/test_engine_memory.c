/* Nothing is allocated in the decode loop: by us, by the C library or by any other (style.md 3.11). The allocator's
 * entry points are defined here, so every call of the process goes through the count. */
#include <stdatomic.h>

#include "engine/engine_fixture.h"

static atomic_int counting, n_allocations;

static void count(void)
{
    if (atomic_load_explicit(&counting, memory_order_relaxed)) atomic_fetch_add(&n_allocations, 1);
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define SANITIZED
#endif

#ifdef SANITIZED /* the allocator is the sanitizer's, and calls this */
void __sanitizer_malloc_hook(const volatile void *p, size_t n);
__attribute__((visibility("default"))) void __sanitizer_malloc_hook(const volatile void *p, size_t n)
{
    (void)p, (void)n;
    count();
}
#else
#define SHOWN __attribute__((visibility("default")))
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

SHOWN void *malloc(size_t n)
{
    count();
    return __libc_malloc(n);
}

SHOWN void *calloc(size_t n, size_t size)
{
    count();
    return __libc_calloc(n, size);
}

SHOWN void *realloc(void *p, size_t n)
{
    count();
    return __libc_realloc(p, n);
}

SHOWN void *aligned_alloc(size_t alignment, size_t n)
{
    count();
    return __libc_memalign(alignment, n);
}

SHOWN void *memalign(size_t alignment, size_t n);
SHOWN void *memalign(size_t alignment, size_t n)
{
    return aligned_alloc(alignment, n);
}

SHOWN int posix_memalign(void **p, size_t alignment, size_t n)
{
    return (*p = aligned_alloc(alignment, n)) ? 0 : 12;
}
#endif

struct listener {
    int n_texts, at_last; /* allocations when the last text came */
};

static bool hear(void *user, const ey_event *event)
{
    struct listener *l = user;
    if (event->type != EY_EVENT_TEXT) return true;
    if (!l->n_texts++) atomic_store(&n_allocations, 0), atomic_store(&counting, 1);
    l->at_last = atomic_load(&n_allocations);
    return true;
}

static void counter_counts(void **state)
{
    (void)state;
    atomic_store(&n_allocations, 0), atomic_store(&counting, 1);
    void *volatile p = malloc(100), *volatile q = calloc(3, 40), *volatile r = strdup("allocated in libc");
    atomic_store(&counting, 0);
    free(p), free(q), free(r);
    assert_int_equal(atomic_load(&n_allocations), 3);
}

static void decode_allocates_nothing(void **state)
{
    (void)state;
    static const char *const devices[] = {"ref", "cpu"};
    static const char *const kinds[] = {"tiny-gqa4-fp8", "tiny-head72-bf16", "tiny-gqa4-f32"};
    static const char *const stops[] = {"no such words in the answer", "\n\n\n\n\n\n\n\n\n\n"};
    const ey_sampling drawn = {.temperature = 0.9f, .top_k = 50, .top_p = 0.95f, .min_p = 0.001f, .repetition_penalty = 1.1f,
                               .presence_penalty = 0.5f, .frequency_penalty = 0.1f, .seed = 7};
    static struct question q;
    for (int d = 0; d < 2; d++)
        for (int k = 0; k < 3; k++) {
            struct listener l = {0};
            ey_engine *engine = engine_open(kinds[k], devices[d], 2, 512);
            question_simple(&q, 1, "Tell me a story.", 80); /* over a block border too */
            q.request.on_event = hear, q.request.event_user = &l, q.request.top_logprobs = 5;
            if (k == 1) q.request.sampling = drawn, q.request.stop = stops, q.request.n_stop = 2;
            ey_answer a = ask(engine, &q);
            atomic_store(&counting, 0);
            assert_true(l.n_texts >= 20);
            if (l.at_last) fail_msg("%s %s: %d allocations while decoding", devices[d], kinds[k], l.at_last);
            ey_answer_free(&a);
            ey_engine_close(&engine);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(counter_counts), cmocka_unit_test(decode_allocates_nothing)};
    return cmocka_run_group_tests(tests, engine_fixture_open, engine_fixture_close);
}
