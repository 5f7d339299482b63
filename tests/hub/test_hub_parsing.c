/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing of the hub's data (names, etags, commits, headers, listings) and of the record of a
 * partial file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/hf_cache.h"
#include "hub/byte_ranges.h"
#include "hub/hub_response.h"

/* ---- names ---- */

static void test_file_names(void **state)
{
    (void)state;
    static const char *const good[] = {"config.json", "model-00001-of-00002.safetensors", "a",
                                       "A_b-c.d"};
    static const char *const bad[] = {
        "",     ".",    "..",  ".hidden", "-rf",         "../x",   "a/b",   "/etc/passwd",
        "a..b", "a\\b", "a b", "a\nb",    "caf\xc3\xa9", "%2e%2e", "x\x7f", "C:x"};
    char longest[HUB_FILE_NAME_BYTES + 2];
    memset(longest, 'a', sizeof(longest));
    longest[HUB_FILE_NAME_BYTES] = 0;
    assert_true(is_safe_file_name(longest));
    longest[HUB_FILE_NAME_BYTES] = 'a';
    longest[HUB_FILE_NAME_BYTES + 1] = 0;
    assert_false(is_safe_file_name(longest));
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(is_safe_file_name(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(is_safe_file_name(bad[i]));
}

static void test_repositories(void **state)
{
    (void)state;
    struct repository r;
    static const char *const good[] = {"Qwen/Qwen3-VL-2B-Instruct-FP8", "gpt2", "a.b_c-d/e"};
    static const char *const bad[] = {"",     "/",     "a/",     "/a",          "../a",
                                      "a/..", "a/b/c", "a--b/c", "a/b..c",      "-a/b",
                                      ".a/b", "a/-b",  "a/b c",  "https://x/y", "a/b\xff"};
    static const char *const no_revision[] = {"a/b@",    "a/b@..",  "a/b@../c",  "a/b@x/../y",
                                              "a/b@/x",  "a/b@x/",  "a/b@x//y",  "a/b@-x",
                                              "a/b@x y", "a/b@%2e", "a/b@.git/x"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(is_hub_repo_name(good[i]) && repository_parse(&r, good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(is_hub_repo_name(bad[i]));
    for (size_t i = 0; i < sizeof(no_revision) / sizeof(no_revision[0]); i++)
        assert_false(repository_parse(&r, no_revision[i]));
    assert_true(repository_parse(&r, "a/b@refs/pr/3"));
    assert_string_equal(r.name, "a/b");
    assert_string_equal(r.revision, "refs/pr/3");
}

static void test_hashes(void **state)
{
    (void)state;
    assert_true(is_commit_hash("0123456789abcdef0123456789abcdef01234567"));
    assert_true(is_etag_hash("0123456789abcdef0123456789abcdef01234567"));
    assert_true(is_etag_hash("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
    static const char *const bad[] = {"",
                                      "0123456789ABCDEF0123456789abcdef01234567",
                                      "0123456789abcdef0123456789abcdef0123456",
                                      "0123456789abcdef0123456789abcdef012345678",
                                      "../../../../../../../../../../../../x000",
                                      "d41d8cd98f00b204e9800998ecf8427e"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(is_commit_hash(bad[i]) || is_etag_hash(bad[i]));
}

static void test_etag_text(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"\"abc\"", "abc"}, {"W/\"abc\"", "abc"},
                                          {"abc", "abc"},     {"\"", "\""},
                                          {"", ""},           {"\"a\"b\"", "a\"b"}};
    char out[8];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_true(etag_unquote(out, sizeof(out), rows[i][0]));
        assert_string_equal(out, rows[i][1]);
    }
    assert_true(etag_unquote(out, sizeof(out), "\"1234567\""));
    assert_false(etag_unquote(out, sizeof(out), "\"12345678\""));
}

/* ---- headers ---- */

static void feed(struct hub_response *r, const char *text)
{
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n") + 1;
        hub_response_header(r, line, n);
        line += n;
    }
}

static void test_headers(void **state)
{
    (void)state;
    struct hub_response r = {0};
    feed(&r, "HTTP/1.1 302 Found\r\nX-Linked-ETag:  \"ab\" "
             "\r\nlocation:https://x/y:z\r\nX-Linked-Size: 17\r\nno colon\r\n: empty\r\n\r\n");
    assert_int_equal(r.status, 302);
    assert_string_equal(r.linked_etag, "\"ab\"");
    assert_string_equal(r.location, "https://x/y:z");
    assert_string_equal(r.linked_size, "17");
    feed(&r, "HTTP/2 200\r\nETag: x\r\n");
    assert_int_equal(r.status, 200);
    assert_string_equal(r.linked_etag, "");
    assert_string_equal(r.etag, "x");
    hub_response_header(&r, "ETag: a\0b\r\n", 11);
    assert_string_equal(r.etag, "");
    assert_true(r.too_long);
    feed(&r, "HTTP/1.1 99999999999 x\r\n");
    assert_int_equal(r.status, 999);
}

static void test_long_headers(void **state)
{
    (void)state;
    static char line[40000];
    struct hub_response r = {0};
    size_t n = (size_t)snprintf(line, sizeof(line), "Location: ");
    memset(line + n, 'a', sizeof(line) - n);
    hub_response_header(&r, line, n + EY_MAX_URL_BYTES);
    assert_int_equal(strlen(r.location), EY_MAX_URL_BYTES);
    assert_false(r.too_long);
    hub_response_header(&r, line, n + EY_MAX_URL_BYTES + 1);
    assert_string_equal(r.location, "");
    assert_true(r.too_long);
    hub_response_header(&r, line, sizeof(line));
    assert_string_equal(r.location, "");
}

static void test_metadata(void **state)
{
    (void)state;
    static const char commit[] = "0123456789abcdef0123456789abcdef01234567";
    static const char sha1[] = "d00491fd7e5bb6fa28c517a0bb32b8b506539d4d",
                      sha256[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    struct hub_response r = {.status = 200};
    struct hub_file file = {.name = "x"};
    ey_err e;
    strcpy(r.etag, sha1);
    strcpy(r.content_length, "5");
    strcpy(r.commit, commit);
    assert_true(hub_response_metadata(&r, commit, &file, &e));
    assert_true(file.size == 5 && strcmp(file.etag, sha1) == 0);
    r.status = 302;
    strcpy(r.linked_etag, sha256);
    strcpy(r.linked_size, "4398046511104");
    assert_true(hub_response_metadata(&r, commit, &file, &e));
    assert_true(file.size == (uint64_t)1 << 42 && strcmp(file.etag, sha256) == 0);
    static const char *const bad_sizes[] = {
        "", "-1", "4398046511105", "99999999999999999999999", "5 ", "0x5", "1e3"};
    for (size_t i = 0; i < sizeof(bad_sizes) / sizeof(bad_sizes[0]); i++) {
        strcpy(r.linked_size, bad_sizes[i]);
        assert_false(hub_response_metadata(&r, commit, &file, &e));
    }
    strcpy(r.linked_size, "5");
    strcpy(r.linked_etag, "\"../../etc/passwd\"");
    assert_false(hub_response_metadata(&r, commit, &file, &e));
    strcpy(r.linked_etag, sha256);
    r.commit[0] = 'f';
    assert_false(hub_response_metadata(&r, commit, &file, &e));
}

static void test_ranges(void **state)
{
    (void)state;
    struct hub_response r = {0};
    uint64_t begin, end, total;
    strcpy(r.content_range, "bytes 5-9/100");
    assert_true(hub_response_range(&r, &begin, &end, &total));
    assert_true(begin == 5 && end == 10 && total == 100);
    static const char *const bad[] = {"",
                                      "bytes",
                                      "bytes 5-9",
                                      "bytes 5-9/*",
                                      "bytes */100",
                                      "bytes 9-5/100",
                                      "bytes 5-100/100",
                                      "bytes 5-9/100x",
                                      "bytes -5-9/100",
                                      "5-9/100",
                                      "bytes 5-99999999999999999999/100",
                                      "bytes 0-0/0"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        strcpy(r.content_range, bad[i]);
        assert_false(hub_response_range(&r, &begin, &end, &total));
    }
}

static void test_waits(void **state)
{
    (void)state;
    struct hub_response r = {0};
    assert_true(hub_response_retry_after(&r, 0.5) == 0.5);
    strcpy(r.retry_after, "7");
    assert_true(hub_response_retry_after(&r, 0.5) == 7);
    strcpy(r.retry_after, "100000");
    assert_true(hub_response_retry_after(&r, 0.5) == 60);
    strcpy(r.retry_after, "Wed, 21 Oct 2026 07:28:00 GMT");
    assert_true(hub_response_retry_after(&r, 0.5) == 0.5);
}

/* ---- JSON ---- */

static bool reads_listing(const char *text)
{
    struct repo_listing listing;
    ey_err e;
    bool ok = repo_listing_read(&listing, text, strlen(text), &e);
    if (ok) repo_listing_free(&listing);
    return ok;
}

static void test_listings(void **state)
{
    (void)state;
#define SHA "\"sha\": \"0123456789abcdef0123456789abcdef01234567\""
    struct repo_listing listing;
    static const char good[] = "{" SHA
                               ", \"siblings\": [{\"rfilename\": \"a.json\"}, {\"rfilename\": 5}, "
                               "7, null, {}, {\"rfilename\": \"../b\"}]}";
    assert_true(repo_listing_read(&listing, good, strlen(good), NULL));
    assert_true(repo_listing_has(&listing, "a.json"));
    assert_false(repo_listing_has(&listing, "b") || repo_listing_has(&listing, "5"));
    repo_listing_free(&listing);
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{" SHA "}",
        "{" SHA ", \"siblings\": {}}",
        "{\"siblings\": []}",
        "{\"sha\": 5, \"siblings\": []}",
        "{\"sha\": \"../../../../../../../../../../../evil0000\", \"siblings\": []}",
        "{" SHA ", \"siblings\": []",
        "null"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(reads_listing(bad[i]));
}

static bool reads_shards(const char *text, size_t n, const char *first, size_t count)
{
    struct shard_names names;
    ey_err e;
    if (!shard_names_read(&names, text, n, &e)) return false;
    bool ok = names.n == count && strcmp(names.item[0], first) == 0;
    shard_names_free(&names);
    return ok;
}

static void test_shard_names(void **state)
{
    (void)state;
#define READS(text, first, count) reads_shards(text, strlen(text), first, count)
    assert_true(READS("{\"weight_map\": {\"a\": \"m-2.safetensors\", \"b\": \"m-1.safetensors\", "
                      "\"c\": \"m-2.safetensors\"}}",
                      "m-1.safetensors", 2));
    static const char *const bad[] = {"{}",
                                      "{\"weight_map\": []}",
                                      "{\"weight_map\": {}}",
                                      "{\"weight_map\": {\"a\": 5}}",
                                      "{\"weight_map\": {\"a\": \"../m.safetensors\"}}",
                                      "{\"weight_map\": {\"a\": \"/m.safetensors\"}}",
                                      "{\"weight_map\": {\"a\": \"m.bin\"}}",
                                      "{\"weight_map\": {\"a\": \".safetensors\"}}",
                                      "{\"weight_map\": {\"a\": \"m.safetensors\\u0000/../x\"}}",
                                      "{\"weight_map\": {\"a\": \"m.safetensors/x\"}}",
                                      "[",
                                      ""};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(READS(bad[i], "", 0));
}

/* ---- the record ---- */

static void test_extents(void **state)
{
    (void)state;
    struct byte_ranges x = {0}, read;
    char text[BYTE_RANGES_TEXT_BYTES];
    uint64_t begin, end;
    assert_true(byte_ranges_first_gap(&x, 100, &begin, &end) && begin == 0 && end == 100);
    assert_true(byte_ranges_add(&x, 10, 20) && byte_ranges_add(&x, 30, 40) &&
                byte_ranges_add(&x, 50, 50) && x.n == 2);
    assert_true(byte_ranges_first_gap(&x, 100, &begin, &end) && begin == 0 && end == 10);
    assert_true(byte_ranges_add(&x, 0, 10) && x.n == 2 && byte_ranges_prefix(&x) == 20);
    assert_true(byte_ranges_first_gap(&x, 100, &begin, &end) && begin == 20 && end == 30);
    assert_true(byte_ranges_add(&x, 15, 35) && x.n == 1 && byte_ranges_total(&x) == 40);
    assert_true(byte_ranges_add(&x, 60, 100) && byte_ranges_first_gap(&x, 100, &begin, &end) &&
                begin == 40 && end == 60);
    assert_true(byte_ranges_write(&x, 100, text) == strlen(text) &&
                byte_ranges_read(&read, 100, text) && read.n == 2);
    assert_memory_equal(read.item, x.item, 2 * sizeof(x.item[0]));
    assert_false(byte_ranges_read(&read, 99, text));
    assert_true(byte_ranges_add(&x, 0, 100) && x.n == 1 &&
                !byte_ranges_first_gap(&x, 100, &begin, &end));
}

static void test_full_record(void **state)
{
    (void)state;
    struct byte_ranges x = {0}, read;
    char text[BYTE_RANGES_TEXT_BYTES];
    const uint64_t far = (uint64_t)900000000000000000;
    for (uint64_t i = 0; i < MAX_BYTE_RANGES; i++)
        assert_true(byte_ranges_add(&x, far + 3 * i, far + 3 * i + 2));
    assert_false(byte_ranges_add(&x, 0, 1));
    assert_true(byte_ranges_add(&x, far + 2, far + 3) && x.n == MAX_BYTE_RANGES - 1);
    assert_true(byte_ranges_write(&x, far + 10000, text) < BYTE_RANGES_TEXT_BYTES &&
                byte_ranges_read(&read, far + 10000, text));
}

static void test_damaged_records(void **state)
{
    (void)state;
    struct byte_ranges x;
    static const char *const bad[] = {"",
                                      "eyelet 1 100",
                                      "eyelet 2 100\n",
                                      "eyelet 1 100\n5",
                                      "eyelet 1 100\n5 4\n",
                                      "eyelet 1 100\n5 101\n",
                                      "eyelet 1 100\n0 5\n5 9\n",
                                      "eyelet 1 100\n10 20\n0 5\n",
                                      "eyelet 1 100\n-1 5\n",
                                      "eyelet 1 100\n0 5 \n",
                                      "eyelet 1 100\n0 99999999999999999999999\n",
                                      "eyelet 1 100\n\n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_true(!byte_ranges_read(&x, 100, bad[i]) && x.n == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_names),  cmocka_unit_test(test_repositories),
        cmocka_unit_test(test_hashes),      cmocka_unit_test(test_etag_text),
        cmocka_unit_test(test_headers),     cmocka_unit_test(test_long_headers),
        cmocka_unit_test(test_metadata),    cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_waits),       cmocka_unit_test(test_listings),
        cmocka_unit_test(test_shard_names), cmocka_unit_test(test_extents),
        cmocka_unit_test(test_full_record), cmocka_unit_test(test_damaged_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
