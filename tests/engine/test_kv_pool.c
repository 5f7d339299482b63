/* SPDX-License-Identifier: Apache-2.0 */
/* The KV pool: references to blocks, known prefixes, and the order in which free blocks are
 * allocated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/cache/kv_pool.h"

enum { N = 6 };

struct fixture {
    struct arena arena;
    struct kv_pool pool;
};

static void open_fixture(struct fixture *f, int n)
{
    ey_err e;
    *f = (struct fixture){0};
    assert_true(kv_pool_open(&f->pool, &f->arena, n, &e));
}

/* Keys of a group share their first bytes, and so a hash bucket. */
static struct digest key_of(int group, int i)
{
    struct digest key = {{0}};
    key.byte[0] = (uint8_t)group;
    key.byte[DIGEST_BYTES - 1] = (uint8_t)i;
    key.byte[DIGEST_BYTES - 2] = (uint8_t)(i >> 8);
    return key;
}

static int32_t find(struct fixture *f, int group, int i)
{
    struct digest key = key_of(group, i);
    return kv_pool_ref_prefix(&f->pool, &key);
}

static void publish(struct fixture *f, int32_t block, int group, int i)
{
    struct digest key = key_of(group, i);
    kv_pool_publish(&f->pool, block, &key);
}

static void each_block_once(void **state)
{
    (void)state;
    struct fixture f;
    bool seen[N] = {0};
    open_fixture(&f, N);
    assert_int_equal(f.pool.n_free, N);
    for (int i = 0; i < N; i++) {
        int32_t block = kv_pool_alloc(&f.pool);
        assert_in_range(block, 0, N - 1);
        assert_false(seen[block]);
        seen[block] = true;
    }
    assert_int_equal(f.pool.n_free, 0);
    assert_int_equal(kv_pool_alloc(&f.pool), -1);
    kv_pool_unref(&f.pool, 3);
    assert_int_equal(kv_pool_alloc(&f.pool), 3);
    assert_int_equal(kv_pool_alloc(&f.pool), -1);
    arena_free(&f.arena);
}

static void prefixes_are_found_and_shared(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, N);
    int32_t block = kv_pool_alloc(&f.pool), other = kv_pool_alloc(&f.pool);
    assert_int_equal(find(&f, 1, 0), -1);
    publish(&f, block, 1, 0);
    publish(&f, other, 1, 0); /* a second block with the same contents is not added */
    assert_int_equal(find(&f, 1, 0), block);
    assert_int_equal(f.pool.block[block].refs, 2);
    kv_pool_unref(&f.pool, block);
    assert_int_equal(f.pool.n_free, N - 2); /* one reference remains */
    kv_pool_unref(&f.pool, block);
    kv_pool_unref(&f.pool, other);
    assert_int_equal(f.pool.n_free, N);
    assert_int_equal(f.pool.n_known_free, 1);
    assert_int_equal(find(&f, 1, 0), block); /* free, but still known */
    assert_int_equal(f.pool.n_free, N - 1);
    assert_int_equal(f.pool.n_known_free, 0);
    arena_free(&f.arena);
}

/* Unknown blocks are allocated first, then known ones, least recently released first. */
static void least_recently_released_blocks_go_first(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, N);
    for (int i = 0; i < N; i++)
        assert_true(kv_pool_alloc(&f.pool) >= 0);
    static const int32_t order[N] = {4, 1, 5, 0, 3, 2};
    for (int i = 0; i < N; i++) {
        if (order[i] != 5 && order[i] != 3)
            publish(&f, order[i], 2, order[i]); /* all in one bucket */
        kv_pool_unref(&f.pool, order[i]);
    }
    assert_int_equal(find(&f, 2, 4), 4); /* used again, so the last in order */
    kv_pool_unref(&f.pool, 4);
    static const int32_t taken[N] = {3, 5, 1, 0, 2, 4};
    for (int i = 0; i < N; i++) {
        bool was_known = f.pool.block[taken[i]].known;
        assert_int_equal(kv_pool_alloc(&f.pool), taken[i]);
        assert_int_equal(find(&f, 2, taken[i]), -1); /* its old contents are forgotten … */
        if (was_known && i < 5) assert_true(f.pool.block[4].known); /* … but not the others' */
    }
    arena_free(&f.arena);
}

static void forgetting_keeps_holders(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, N);
    int32_t held = kv_pool_alloc(&f.pool), dropped = kv_pool_alloc(&f.pool);
    publish(&f, held, 3, 1);
    publish(&f, dropped, 3, 2);
    kv_pool_unref(&f.pool, dropped);
    kv_pool_clear(&f.pool);
    assert_int_equal(f.pool.n_free, N - 1);
    assert_int_equal(f.pool.n_known_free, 0);
    assert_int_equal(find(&f, 3, 1), -1);
    assert_int_equal(find(&f, 3, 2), -1);
    publish(&f, held, 3, 3); /* it may become known again */
    kv_pool_unref(&f.pool, held);
    assert_int_equal(find(&f, 3, 3), held);
    arena_free(&f.arena);
}

/* ---- random calls, checked against a simple model ---- */

enum { MANY = 40, KEYS = 60, CALLS = 200000 };

struct told {
    int refs[MANY], key[MANY]; /* key: -1 unknown */
};

static int known_place(const struct told *t, int key)
{
    for (int i = 0; i < MANY; i++)
        if (t->key[i] == key) return i;
    return -1;
}

static void check(const struct fixture *f, const struct told *t)
{
    int n_free = 0, n_known = 0, listed = 0;
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(f->pool.block[i].refs, t->refs[i]);
        assert_int_equal(f->pool.block[i].known, t->key[i] >= 0);
        n_free += t->refs[i] == 0;
        n_known += t->refs[i] == 0 && t->key[i] >= 0;
    }
    assert_int_equal(f->pool.n_free, n_free);
    assert_int_equal(f->pool.n_known_free, n_known);
    bool known = false;
    for (int32_t at = f->pool.oldest, before = -1; at >= 0;
         before = at, at = f->pool.block[at].newer, listed++) {
        assert_int_equal(f->pool.block[at].older, before);
        assert_false(known && !f->pool.block[at].known);
        known = f->pool.block[at].known;
    }
    assert_int_equal(listed, n_free);
}

static void any_order_of_calls(void **state)
{
    (void)state;
    struct fixture f;
    struct told told = {0};
    unsigned noise = 1;
    open_fixture(&f, MANY);
    for (int i = 0; i < MANY; i++)
        told.key[i] = -1;
    for (int call = 0; call < CALLS; call++) {
        noise = noise * 1664525u + 1013904223u;
        int what = (int)(noise >> 29), block = (int)(noise >> 8) % MANY,
            key = (int)(noise >> 12) % KEYS;
        if (what < 2) {
            int32_t got = kv_pool_alloc(&f.pool);
            assert_int_equal(got >= 0 ? told.refs[got] : -1, got >= 0 ? 0 : -1);
            if (got >= 0) {
                told.refs[got] = 1;
                told.key[got] = -1;
            }
        } else if (what < 4) {
            int32_t got = find(&f, key % 4, key);
            assert_int_equal(got, known_place(&told, key));
            if (got >= 0) told.refs[got]++;
        } else if (what == 4 && told.refs[block] && (noise >> 20) % 4) {
            publish(&f, block, key % 4, key);
            if (told.key[block] < 0 && known_place(&told, key) < 0) told.key[block] = key;
        } else if (what > 4 && told.refs[block]) {
            kv_pool_unref(&f.pool, block);
            told.refs[block]--;
        }
        if (call % 16 == 0) check(&f, &told);
        if (call % 5000 == 4999) {
            kv_pool_clear(&f.pool);
            for (int i = 0; i < MANY; i++)
                told.key[i] = -1;
        }
    }
    arena_free(&f.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_block_once),
        cmocka_unit_test(prefixes_are_found_and_shared),
        cmocka_unit_test(least_recently_released_blocks_go_first),
        cmocka_unit_test(forgetting_keeps_holders),
        cmocka_unit_test(any_order_of_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
