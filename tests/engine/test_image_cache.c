/* SPDX-License-Identifier: Apache-2.0 */
/* The image cache, and the digests of images. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/cache/image_cache.h"

enum { N = 8 };

struct fixture {
    struct arena arena;
    struct image_cache cache;
};

static void open_fixture(struct fixture *f)
{
    ey_err e;
    *f = (struct fixture){0};
    assert_true(image_cache_open(&f->cache, &f->arena, N, &e));
}

static struct digest key_of(int i)
{
    struct digest key = {{0}};
    key.byte[DIGEST_BYTES - 1] = (uint8_t)i;
    return key;
}

static struct image_entry *pin(struct fixture *f, int i, int n_tokens)
{
    struct digest key = key_of(i);
    return image_cache_pin(&f->cache, &key, n_tokens);
}

/* Adds an image and releases it, like a request that is done. */
static void put(struct fixture *f, int i, int n_tokens)
{
    struct image_entry *entry = pin(f, i, n_tokens);
    assert_non_null(entry);
    entry->ready = true;
    image_cache_unpin(&f->cache, entry);
}

static bool has(struct fixture *f, int i)
{
    for (int k = 0; k < N; k++) {
        struct digest key = key_of(i);
        if (f->cache.entry[k].used && memcmp(&f->cache.entry[k].key, &key, sizeof(key)) == 0)
            return true;
    }
    return false;
}

/* Each block is free or belongs to exactly one entry. */
static void check(const struct fixture *f)
{
    bool seen[N] = {0};
    int n = f->cache.n_free, tokens = 0;
    for (int i = 0; i < f->cache.n_free; i++) {
        assert_false(seen[f->cache.free_block[i]]);
        seen[f->cache.free_block[i]] = true;
    }
    for (int k = 0; k < N; k++) {
        const struct image_entry *entry = &f->cache.entry[k];
        if (!entry->used) continue;
        assert_int_equal(entry->n_blocks, image_cache_blocks(entry->n_tokens));
        n += entry->n_blocks;
        tokens += entry->n_tokens;
        for (int i = 0; i < entry->n_blocks; i++) {
            assert_false(seen[entry->block[i]]);
            seen[entry->block[i]] = true;
        }
    }
    assert_int_equal(n, N);
    assert_int_equal(image_cache_tokens(&f->cache), tokens);
}

static void blocks_of_images(void **state)
{
    (void)state;
    static const int rows[][2] = {{1, 1}, {63, 1}, {64, 1}, {65, 2}, {128, 2}, {16384, 256}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(image_cache_blocks(rows[i][0]), rows[i][1]);
}

static void unfinished_images_are_dropped(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    struct image_entry *entry = pin(&f, 1, 100);
    assert_false(entry->ready);
    assert_int_equal(entry->n_blocks, 2);
    assert_ptr_equal(pin(&f, 1, 100), entry); /* a second request waits for it */
    image_cache_unpin(&f.cache, entry);
    assert_true(has(&f, 1));
    check(&f);
    image_cache_unpin(&f.cache, entry);
    assert_false(has(&f, 1));
    assert_int_equal(f.cache.n_free, N);
    put(&f, 1, 100);
    assert_true(has(&f, 1));
    assert_true(pin(&f, 1, 100)->ready);
    check(&f);
    arena_free(&f.arena);
}

static void least_recently_used_images_are_evicted(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    put(&f, 1, 192);
    put(&f, 2, 128);
    put(&f, 3, 192); /* 3 + 2 + 3 blocks: full */
    put(&f, 1, 192); /* used again */
    put(&f, 4, 64);
    assert_true(has(&f, 1) && !has(&f, 2) && has(&f, 3) && has(&f, 4));
    check(&f);
    put(&f, 5, 5 * 64); /* one block is free, evicting 3 and 1 frees three each; 4 was used later */
    assert_true(!has(&f, 1) && !has(&f, 3) && has(&f, 4) && has(&f, 5));
    check(&f);
    arena_free(&f.arena);
}

static void pinned_images_stay(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    struct image_entry *held = pin(&f, 1, 4 * 64);
    held->ready = true;
    put(&f, 2, 3 * 64);
    assert_null(pin(&f, 3, 5 * 64)); /* 1 is pinned, so at most four are available … */
    assert_true(has(&f, 2));         /* … and nothing is evicted without need */
    struct digest one = key_of(1), two = key_of(2);
    image_cache_remove(&f.cache, &one);
    assert_true(has(&f, 1));
    image_cache_remove(&f.cache, &two);
    assert_false(has(&f, 2));
    assert_non_null(pin(&f, 3, 4 * 64));
    assert_null(pin(&f, 4, 1));
    image_cache_clear(&f.cache);
    assert_true(has(&f, 1) && has(&f, 3));
    image_cache_unpin(&f.cache, held);
    image_cache_clear(&f.cache);
    assert_true(!has(&f, 1) && has(&f, 3));
    check(&f);
    arena_free(&f.arena);
}

static void any_order_of_calls(void **state)
{
    (void)state;
    struct fixture f;
    struct image_entry *held[6] = {0};
    unsigned noise = 7;
    open_fixture(&f);
    for (int call = 0; call < 50000; call++) {
        noise = noise * 1664525u + 1013904223u;
        int slot = (int)(noise >> 8) % 6, key = (int)(noise >> 12) % 10, tokens = 1 + key * 37;
        struct image_entry **h = &held[slot];
        if (*h && (noise >> 30) == 0)
            (*h)->ready = true;
        else if (*h) {
            image_cache_unpin(&f.cache, *h);
            *h = NULL;
        } else if ((*h = pin(&f, key, tokens)))
            assert_int_equal((*h)->n_tokens, tokens);
        if (call % 4 == 0) check(&f);
    }
    for (int i = 0; i < 6; i++)
        if (held[i]) image_cache_unpin(&f.cache, held[i]);
    image_cache_clear(&f.cache);
    assert_int_equal(f.cache.n_free, N);
    arena_free(&f.arena);
}

/* ---- digests ---- */

static void digests_are_sha256(void **state)
{
    (void)state;
    static const uint8_t abc[] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
                                  0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
                                  0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
    struct hasher *h;
    ey_err e;
    assert_true(hasher_open(&h, &e));
    for (int round = 0; round < 2; round++) {
        hasher_start(h);
        hasher_add(h, "a", 1);
        hasher_add(h, "bc", 2);
        struct digest d = hasher_end(h);
        assert_memory_equal(d.byte, abc, sizeof(abc));
    }
    hasher_close(&h);
    assert_null(h);
    hasher_close(&h);
}

static void images_are_known_by_pixels_and_size(void **state)
{
    (void)state;
    uint8_t pixels[18] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, others[18];
    struct image wide = {.width = 3, .height = 2, .rgb = pixels},
                 tall = {.width = 2, .height = 3, .rgb = pixels},
                 copy = {.width = 3, .height = 2, .rgb = others};
    memcpy(others, pixels, sizeof(pixels));
    struct digest a = image_digest(&wide), b = image_digest(&tall), c = image_digest(&copy);
    assert_memory_equal(&a, &c, sizeof(a));
    assert_memory_not_equal(&a, &b, sizeof(a));
    others[17] ^= 1;
    c = image_digest(&copy);
    assert_memory_not_equal(&a, &c, sizeof(a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_images),
        cmocka_unit_test(unfinished_images_are_dropped),
        cmocka_unit_test(least_recently_used_images_are_evicted),
        cmocka_unit_test(pinned_images_stay),
        cmocka_unit_test(any_order_of_calls),
        cmocka_unit_test(digests_are_sha256),
        cmocka_unit_test(images_are_known_by_pixels_and_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
