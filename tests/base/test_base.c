/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of src/base: UTF-8, JSON with limits, bounded buffers, arenas, error texts, thread pool. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text/json_writer.h"
#include "base/limits.h"
#include "base/pool.h"
#include "base/utf8.h"

/* ---- UTF-8 ---- */

static void utf8_table(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        int result;
        uint32_t cp;
        size_t bad;
    } rows[] = {
        {"a", 1, 'a', 0},
        {"\xc3\xa9", 2, 0xe9, 0},
        {"\xe4\xbd\xa0", 3, 0x4f60, 0},
        {"\xf0\x9f\x98\x80", 4, 0x1f600, 0},
        {"\xc3", -1, 0, 1},
        {"\xe4\xbd", -1, 0, 2},
        {"\xf0\x9f\x98", -1, 0, 3},
        {"\xc0\x80", 0, 0, 1},         /* overlong */
        {"\xe0\x80\x80", 0, 0, 1},     /* overlong */
        {"\xed\xa0\x80", 0, 0, 1},     /* surrogate */
        {"\xf4\x90\x80\x80", 0, 0, 1}, /* beyond U+10FFFF */
        {"\xf0\x9f\x41", 0, 0, 2},     /* cut off by an ASCII letter */
        {"\x80", 0, 0, 1},
        {"\xff", 0, 0, 1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t cp = 0;
        size_t n = strlen(rows[i].bytes);
        assert_int_equal(utf8_decode(rows[i].bytes, n, &cp), rows[i].result);
        if (rows[i].result > 0)
            assert_int_equal(cp, rows[i].cp);
        else
            assert_int_equal(utf8_bad_length(rows[i].bytes, n), rows[i].bad);
    }
}

static void utf8_every_code_point_round_trips(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
        char bytes[4];
        uint32_t back;
        int n = utf8_encode(cp, bytes);
        bool surrogate = cp >= 0xd800 && cp < 0xe000;
        assert_int_equal(utf8_decode(bytes, (size_t)n, &back), surrogate ? 0 : n);
        if (!surrogate) assert_int_equal(back, cp);
    }
}

/* ---- JSON ---- */

static void json_rejects(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "middle of a value"},
        {"{", "middle of a value"},
        {"{\"a\":1} x", "follows the value"},
        {"[1,]", "not valid JSON"},
        {"nul", "not valid JSON"},
        {"{\"a\" 1}", "not valid JSON"},
        {"\"\xff\"", "not valid JSON"},
        {"null", "is null"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ey_err e = {0};
        assert_null(json_parse(rows[i].text, strlen(rows[i].text), "thing", EY_BAD_REQUEST, &e));
        assert_int_equal(e.code, EY_BAD_REQUEST);
        assert_non_null(strstr(e.text, "thing"));
        if (!strstr(e.text, rows[i].says)) fail_msg("row %zu: %s", i, e.text);
    }
}

static void json_nested_a_hundred_thousand_deep(void **state)
{
    (void)state;
    enum { DEEP = 100000 };
    char *text = malloc(DEEP);
    memset(text, '[', DEEP);
    ey_err e;
    assert_null(json_parse(text, DEEP, "deep", EY_BAD_MODEL, &e));
    assert_non_null(strstr(e.text, "nested"));
    free(text);
}

static void json_numbers_have_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        bool ok;
    } rows[] = {{"0", false},
                {"1", true},
                {"10", true},
                {"11", false},
                {"1.5", false},
                {"\"5\"", false},
                {"99999999999999999999999", false},
                {"-99999999999999999999999", false},
                {"true", false},
                {"null", false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[64];
        int64_t out = 0;
        ey_err e;
        snprintf(text, sizeof(text), "{\"n\": %s}", rows[i].value);
        json_object *o = json_parse(text, strlen(text), "t", EY_BAD_MODEL, &e);
        assert_non_null(o);
        assert_int_equal(json_int(o, "n", 1, 10, &out, "t", &e), rows[i].ok);
        json_object_put(o);
    }
}

static void json_shows_whole_characters(void **state)
{
    int64_t out;
    ey_err e;
    (void)state;
    json_object *o = json_object_new_object();
    json_object_object_add(o, "n",
                           json_object_new_string("\xe2\x82\xac and a text that is longer than "
                                                  "a message shows \xe2\x82\xac\xe2\x82\xac"
                                                  "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac"));
    assert_false(json_int(o, "n", 1, 10, &out, "t", &e));
    assert_null(strstr(e.text, "\\x"));
    assert_non_null(strstr(e.text, "\xe2\x82\xac…; it must be an integer from 1 to 10"));
    json_object_put(o);
}

static void json_dumps_as_python_does(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"{\"b\":1,\"a\":[1,2.50,true,null,{}],\"c\":\"\"}",
         "{\"b\": 1, \"a\": [1, 2.50, true, null, {}], \"c\": \"\"}"},
        {"[\"\\u00e9\\n\\\"\\\\/\\u0001\"]", "[\"é\\n\\\"\\\\/\\u0001\"]"},
        {"[]", "[]"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ey_err e;
        struct buf out = buf_with_max(1000);
        json_object *o = json_parse(rows[i].in, strlen(rows[i].in), "t", EY_BAD_MODEL, &e);
        assert_non_null(o);
        assert_true(json_dump(&out, o));
        assert_string_equal(out.data, rows[i].out);
        buf_free(&out);
        json_object_put(o);
    }
}

/* ---- memory ---- */

static void buffer_stops_at_its_maximum(void **state)
{
    (void)state;
    struct buf b = buf_with_max(10);
    assert_true(buf_add(&b, "0123456789", 10));
    assert_string_equal(b.data, "0123456789");
    assert_false(buf_add(&b, "x", 1));
    assert_true(b.failed);
    assert_null(b.data);
    assert_false(buf_add_text(&b, "y"));
    buf_free(&b);
}

static void arena_aligns_and_refuses_overflow(void **state)
{
    (void)state;
    struct arena a = {0};
    for (size_t n = 1; n < 300000; n = n * 3 + 1) {
        unsigned char *p = arena_alloc(&a, n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xff, n);
    }
    assert_null(arena_array(&a, SIZE_MAX / 2, 3));
    assert_null(arena_alloc(&a, SIZE_MAX));
    arena_free(&a);
}

static void errors_escape_control_characters(void **state)
{
    (void)state;
    ey_err e;
    assert_false(ey_fail(&e, EY_IO, "a\x1b[2Jb\xff é\n"));
    assert_string_equal(e.text, "a\\x1b[2Jb\\xff é\\x0a");
    assert_int_equal(e.code, EY_IO);
    assert_false(ey_fail_within(&e, "file %d", 7));
    assert_string_equal(e.text, "file 7: a\\x1b[2Jb\\xff é\\x0a");
}

static void errors_are_cut_between_characters(void **state)
{
    (void)state;
    char longest[4000];
    for (size_t i = 0; i + 3 < sizeof(longest); i += 3)
        memcpy(longest + i, "\xe4\xbd\xa0", 4);
    ey_err e;
    ey_fail(&e, EY_IO, "%s", longest);
    assert_true(strlen(e.text) < sizeof(e.text));
    assert_true(utf8_valid(e.text, strlen(e.text)));
    assert_null(strchr(e.text, '\\')); /* no partial character is shown as escapes, either */
    ey_fail_within(&e, "%s", longest);
    assert_null(strchr(e.text, '\\'));
}

static void errors_name_their_item(void **state)
{
    (void)state;
    ey_err e;
    ey_fail(&e, EY_BAD_IMAGE, "image 2: not a JPEG");
    assert_int_equal(e.item_kind, EY_ITEM_NONE);
    assert_int_equal(e.detail, 0);
    assert_false(ey_fail_item(&e, EY_ITEM_IMAGE, 1, "image 2"));
    assert_int_equal(e.item_kind, EY_ITEM_IMAGE);
    assert_int_equal(e.item, 1);
    assert_string_equal(e.text, "image 2: not a JPEG");
    assert_string_equal(e.text + e.detail, "not a JPEG");
    ey_fail_within(&e, "\x1b%s", "Failed to load image"); /* escaping makes the prefix longer */
    assert_string_equal(e.text, "\\x1bFailed to load image: image 2: not a JPEG");
    assert_int_equal(e.item_kind, EY_ITEM_IMAGE);
    assert_int_equal(e.item, 1);
    assert_string_equal(e.text + e.detail, "not a JPEG");
    ey_err copy = e;
    assert_string_equal(copy.text + copy.detail, "not a JPEG");
    ey_fail_item(&e, EY_ITEM_TOOL, 0, NULL);
    assert_int_equal(e.item_kind, EY_ITEM_TOOL);
    assert_int_equal(e.detail, 0);
    assert_false(ey_fail_item(NULL, EY_ITEM_TOOL, 0, "tool 0"));
}

static void new_errors_name_no_item(void **state)
{
    (void)state;
    ey_err e;
    memset(&e, 0xff, sizeof(e));
    ey_fail(&e, EY_IO, "first");
    ey_fail_item(&e, EY_ITEM_TOOL, 3, "first");
    ey_fail(&e, EY_IO, "second");
    assert_int_equal(e.item_kind, EY_ITEM_NONE);
    assert_int_equal(e.item, 0);
    assert_int_equal(e.detail, 0);
    ey_fail_item(&e, EY_ITEM_TOOL, 3, "second");
    ey_fail_memory(&e, "a list", 7);
    assert_int_equal(e.item_kind, EY_ITEM_NONE);
    assert_int_equal(e.detail, 0);
    assert_non_null(strstr(e.text, "no memory for a list (7 bytes); "));
    ey_fail_memory(&e, "a list", 0);
    assert_non_null(strstr(e.text, "no memory for a list; "));
}

static void details_survive_truncation(void **state)
{
    (void)state;
    char longest[sizeof(((ey_err *)0)->text)];
    ey_err e;
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = 0;
    ey_fail(&e, EY_IO, "tool 3: wrong");
    ey_fail_item(&e, EY_ITEM_TOOL, 3, "tool 3");
    ey_fail_within(&e, "%s", longest);
    assert_string_equal(e.text + e.detail, "");
    ey_fail_item(&e, EY_ITEM_TOOL, 3, longest);
    assert_string_equal(e.text + e.detail, "");
}

static void missing_file_is_named(void **state)
{
    (void)state;
    struct file_map map;
    char *data;
    size_t n;
    ey_err e;
    assert_false(file_map_open(&map, "/nowhere/at all", &e));
    assert_int_equal(e.code, EY_NOT_FOUND);
    assert_non_null(strstr(e.text, "/nowhere/at all"));
    assert_false(file_map_open(&map, "/tmp", &e));
    assert_false(file_read(&data, &n, "/dev/zero", 100000, &e));
    assert_non_null(strstr(e.text, "100000"));
}

/* ---- threads ---- */

enum { ITEMS = 1000 };

static void count_item(void *context, size_t begin, size_t end, int thread)
{
    atomic_int *seen = context;
    assert_true(thread >= 0 && thread < 7);
    for (size_t i = begin; i < end; i++)
        atomic_fetch_add(&seen[i], 1);
}

/* Consecutive loops, some of them after the pool's threads fell asleep. */
static void run_team(int threads, int *rounds, atomic_int *seen)
{
    const struct timespec nap = {0, 300000};
    struct pool *pool;
    ey_err e;
    assert_true(pool_create(&pool, threads, &e));
    for (size_t round = 1; round <= 200; round++) {
        if (round % 32 == 0) nanosleep(&nap, NULL);
        if (round % 2)
            pool_run(pool, ITEMS, round % 13, count_item, seen);
        else
            pool_run_ranges(pool, ITEMS, round % 7, round % 13, count_item, seen);
        ++*rounds;
        for (size_t i = 0; i < ITEMS; i++)
            assert_int_equal(atomic_load(&seen[i]), *rounds);
    }
    pool_run(pool, 0, 1, count_item, seen);
    pool_destroy(&pool);
    assert_null(pool);
    pool_destroy(&pool);
}

static void pools_run_each_item_once(void **state)
{
    (void)state;
    static atomic_int seen[ITEMS];
    int rounds = 0;
    run_team(2, &rounds, seen); /* spins while waiting if there are two processors */
    run_team(7, &rounds, seen);
}

/* Vectors of Noll's test_fnv.c, as printed in draft-eastlake-fnv. */
static void fnv1a_gives_the_published_hashes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t hash;
    } rows[] = {{"", 0xcbf29ce484222325u},
                {"a", 0xaf63dc4c8601ec8cu},
                {"b", 0xaf63df4c8601f1a5u},
                {"fo", 0x08985907b541d342u},
                {"foobar", 0x85944171f73967e8u}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_true(fnv1a_64(FNV1A_64_START, rows[i].text, strlen(rows[i].text)) == rows[i].hash);
    assert_true(fnv1a_64(fnv1a_64(FNV1A_64_START, "foo", 3), "bar", 3) == 0x85944171f73967e8u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_table),
        cmocka_unit_test(utf8_every_code_point_round_trips),
        cmocka_unit_test(json_rejects),
        cmocka_unit_test(json_nested_a_hundred_thousand_deep),
        cmocka_unit_test(json_numbers_have_ranges),
        cmocka_unit_test(json_shows_whole_characters),
        cmocka_unit_test(json_dumps_as_python_does),
        cmocka_unit_test(buffer_stops_at_its_maximum),
        cmocka_unit_test(arena_aligns_and_refuses_overflow),
        cmocka_unit_test(errors_escape_control_characters),
        cmocka_unit_test(errors_are_cut_between_characters),
        cmocka_unit_test(errors_name_their_item),
        cmocka_unit_test(new_errors_name_no_item),
        cmocka_unit_test(details_survive_truncation),
        cmocka_unit_test(missing_file_is_named),
        cmocka_unit_test(pools_run_each_item_once),
        cmocka_unit_test(fnv1a_gives_the_published_hashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
