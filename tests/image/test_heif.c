/* SPDX-License-Identifier: Apache-2.0 */
/* HEIC and AVIF: coded frames, not headers, tell how much memory decoding takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "image/codecs/heif_size.h"
#include "image/test_image.h"
#include "sandbox/sandbox.h"

static char *read_file(const char *folder, const char *name, size_t *n)
{
    char path[256], *data = NULL;
    ey_err e;
    snprintf(path, sizeof(path), "tests/%s/data/%s", folder, name);
    if (!file_read(&data, n, path, 1 << 20, &e)) fail_msg("%s", e.text);
    return data;
}

/* HEVC codes whole units of at least 8 pixels, 64 in these files; AV1 codes the exact size. */
static const struct {
    const char *folder, *name;
    struct heif_size size;
} sizes[] = {
    {"image", "plain.heic", {48, 32, 4096, 4096, false, false, false, false}},
    {"image", "alpha.heic", {48, 32, 8192, 4096, false, false, true, false}},
    {"image", "plain.avif", {48, 32, 1536, 1536, false, false, false, false}},
    {"image", "alpha.avif", {48, 32, 3072, 1536, false, false, true, false}},
    {"image", "deep.avif", {48, 32, 1536, 1536, true, true, false, false}},
    {"abuse", "claims-64.avif", {64, 64, 8192 * 8192, 8192 * 8192, false, false, false, false}},
    {"abuse", "grid-64.heic", {64, 64, 64 * 1536 * 1536, 1536 * 1536, false, false, false, false}},
    {"abuse",
     "grid-honest.heic",
     {12288, 12288, 64 * 1536 * 1536, 1536 * 1536, false, false, false, false}},
};

static void coded_sizes_are_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t n;
        char *data = read_file(sizes[i].folder, sizes[i].name, &n);
        struct heif_size is = heif_size_of((const uint8_t *)data, n), expected = sizes[i].size;
        if (is.width != expected.width || is.height != expected.height ||
            is.coded != expected.coded || is.largest != expected.largest ||
            is.deep != expected.deep || is.full_chroma != expected.full_chroma ||
            is.alpha != expected.alpha || is.too_many != expected.too_many)
            fail_msg("%s: %llu x %llu, coded %llu, largest %llu, %d %d %d %d", sizes[i].name,
                     (unsigned long long)is.width, (unsigned long long)is.height,
                     (unsigned long long)is.coded, (unsigned long long)is.largest, is.deep,
                     is.full_chroma, is.alpha, is.too_many);
        free(data);
    }
}

/* Refused before any byte of the budget is acquired. */
static const struct {
    const char *name, *message;
} hostile_heif[] = {
    {"claims-64.avif", "67108864 pixels for an image of 64x64 are not plausible"},
    {"grid-64.heic", "150994944 pixels for an image of 64x64 are not plausible"},
    {"claims-itself.avif", "decoding it takes up to 1164 MiB"},
    {"grid-honest.heic", "decoding it takes up to 1596 MiB"},
};

static void hostile_heif_costs_nothing(void **state)
{
    (void)state;
    ey_budget *budget = ey_budget_create((uint64_t)256 << 20);
    for (size_t i = 0; i < sizeof(hostile_heif) / sizeof(hostile_heif[0]); i++) {
        size_t n;
        char *data = read_file("abuse", hostile_heif[i].name, &n);
        struct image_budget held = {.from = budget};
        struct image image;
        ey_err e;
        double start = seconds_now();
        assert_false(image_decode_within(&image, data, n, "it", &held, &e));
        assert_int_equal(e.code, EY_BAD_IMAGE);
        if (!strstr(e.text, hostile_heif[i].message)) fail_msg("got \"%s\"", e.text);
        assert_int_equal(held.held, 0);
        assert_true(seconds_now() - start < 1);
        free(data);
    }
    ey_budget_free(&budget);
}

static uint8_t *begin_box(uint8_t *at, const char *type, size_t body)
{
    for (size_t i = 0; i < 4; i++)
        at[i] = (uint8_t)((body + 8) >> (24 - 8 * i));
    memcpy(at + 4, type, 4);
    return at + 8;
}

/* Half a megabyte of tables: an item refers to one of 32,768 properties 130,000 times, and each
 * lookup counts from the start. */
static void tables_that_multiply_are_refused(void **state)
{
    (void)state;
    enum { PROPERTIES = 32768, NAMES = 255, ENTRY = 3 + 2 * NAMES, ENTRIES = 510 };
    const size_t ipma = 8 + ENTRIES * ENTRY, iprp = 8 + 8 * PROPERTIES + 8 + ipma,
                 meta = 4 + 14 + 14 + 8 + iprp;
    uint8_t *file = calloc(1, 8 + meta), *at = file;
    assert_non_null(file);
    at = begin_box(at, "meta", meta) + 4;
    at = begin_box(at, "pitm", 6) + 6;
    at[-1] = 1;
    at = begin_box(at, "iinf", 6) + 6;
    at = begin_box(at, "iprp", iprp);
    at = begin_box(at, "ipco", 8 * (size_t)PROPERTIES);
    for (int i = 0; i < PROPERTIES; i++)
        at = begin_box(at, "free", 0);
    at = begin_box(at, "ipma", ipma) + 8;
    at[-5] = 1; /* flags: property indices have 15 bits */
    at[-2] = ENTRIES >> 8;
    at[-1] = ENTRIES & 255;
    for (int i = 0; i < ENTRIES; i++, at += ENTRY) {
        at[1] = 1;
        at[2] = NAMES;
        memset(at + 3, 0xff, ENTRY - 3);
    }
    assert_ptr_equal(at, file + 8 + meta);
    double start = seconds_now();
    assert_true(heif_size_of(file, 8 + meta).too_many);
    assert_true(seconds_now() - start < 5);
    free(file);
}

static bool says_gone(void *user)
{
    (void)user;
    return true;
}

/* A request does not wait for memory that its own holdings make impossible; it does wait for memory
 * that others hold, until its client leaves. */
static void impossible_memory_is_not_awaited(void **state)
{
    (void)state;
    enum { MIB = 1 << 20 };
    ey_budget *budget = ey_budget_create(16 * MIB);
    struct image_budget alone = {.from = budget}, beside = {.from = budget, .own = 4 * MIB},
                        leaving = {.from = budget, .gone = says_gone};
    ey_err e;
    assert_true(ey_budget_acquire(budget, 4 * MIB, 0));
    double start = seconds_now();
    assert_false(image_budget_hold(&alone, 17 * MIB, "it", &e));
    assert_int_equal(e.code, EY_BAD_IMAGE);
    assert_false(image_budget_hold(&beside, 13 * MIB, "it", &e));
    assert_int_equal(e.code, EY_BAD_IMAGE);
    assert_non_null(strstr(e.text, "--host-memory"));
    assert_false(image_budget_hold(&leaving, 13 * MIB, "it", &e));
    assert_int_equal(e.code, EY_CANCELLED);
    assert_true(seconds_now() - start < 5);
    assert_true(image_budget_hold(&beside, 12 * MIB, "it", &e));
    ey_budget_release(budget, beside.held + 4 * MIB);
    ey_budget_free(&budget);
}

static void without_the_helper_heif_is_refused(void **state)
{
    (void)state;
    size_t n;
    char *data = read_file("image", "plain.heic", &n);
    struct image image;
    ey_err e;
    sandbox_kill_all();
    sandbox_set_helper("/no/such/eyelet-decode");
    assert_false(image_decode(&image, data, n, "a.heic", &e));
    assert_int_equal(strncmp(e.text, "a.heic: this HEIC: the program eyelet-decode is missing", 55),
                     0);
    sandbox_set_helper(EY_HELPER);
    free(data);
}

int run_heif_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coded_sizes_are_found),
        cmocka_unit_test(hostile_heif_costs_nothing),
        cmocka_unit_test(tables_that_multiply_are_refused),
        cmocka_unit_test(impossible_memory_is_not_awaited),
        cmocka_unit_test(without_the_helper_heif_is_refused),
    };
    return cmocka_run_group_tests_name("heif", tests, NULL, NULL);
}
