/* SPDX-License-Identifier: Apache-2.0 */
/* One safetensors file: what is accepted, and a row for each way in which it can be malformed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "checkpoint/checkpoint.h"

struct image {
    uint8_t *bytes;
    size_t size;
};

/* Puts the file in a block of exactly its size, so that a sanitizer sees reads past its end. */
static struct image file_of(const char *header, size_t length, size_t data)
{
    struct image f = {.size = 8 + length + data};
    uint64_t n = length;
    f.bytes = malloc(f.size);
    assert_non_null(f.bytes);
    memcpy(f.bytes, &n, 8);
    memcpy(f.bytes + 8, header, length);
    for (size_t i = 0; i < data; i++)
        f.bytes[8 + length + i] = (uint8_t)i;
    return f;
}

static void expect_error(const struct image *f, const char *const *parts, size_t n)
{
    ey_err e = {0};
    struct safetensors *file = NULL;
    bool ok = safetensors_open_memory(&file, f->bytes, f->size, "m.safetensors", &e);
    if (ok) safetensors_close(file);
    assert_false(ok);
    assert_int_equal(e.code, EY_BAD_MODEL);
    for (size_t i = 0; i < n && parts[i]; i++) {
        if (!strstr(e.text, parts[i])) print_error("\"%s\" lacks \"%s\"\n", e.text, parts[i]);
        assert_non_null(strstr(e.text, parts[i]));
    }
}

#define ENTRY(name, dtype, shape, offsets) \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

/* Each row: the header, the number of data bytes, and a part of the message. */
static void malformed_headers(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        const char *parts[3];
    } rows[] = {
        {"[]", 0, {"0x5b", "'{'"}},
        {" {}", 0, {"0x20", "'{'"}},
        {"{", 0, {"not valid JSON", "byte 1"}},
        {"{\"a\":}", 0, {"not valid JSON"}},
        {"{} x", 0, {"not valid JSON", "byte 3"}},
        {"{\"\xff\":1}", 0, {"not valid JSON"}},
        {"{'a\"':1}", 0, {"not valid JSON"}},
        {"{\"a\":7}", 0, {"tensor a", "its entry is 7"}},
        {"{\"a\":null}", 0, {"tensor a", "its entry is absent"}},
        {"{\"a\":{}}", 0, {"tensor a", "dtype is absent"}},
        {"{" ENTRY("a", "F8_E5M3", "[1]", "[0,1]") "}", 1, {"tensor a", "F8_E5M3", "supported"}},
        {"{" ENTRY("a", "F4", "[2]", "[0,1]") "}", 1, {"tensor a", "\"F4\"", "supported"}},
        {"{" ENTRY("a", "bf16", "[1]", "[0,2]") "}", 2, {"tensor a", "\"bf16\"", "supported"}},
        {"{\"a\":{\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,1]}}",
         1,
         {"tensor a", "dtype is 3"}},
        {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, {"tensor a", "shape is absent"}},
        {"{" ENTRY("a", "U8", "1", "[0,1]") "}", 1, {"tensor a", "shape is 1;"}},
        {"{" ENTRY("a", "U8", "[1.0]", "[0,1]") "}", 1, {"tensor a", "shape is [1.0]"}},
        {"{" ENTRY("a", "U8", "[1e0]", "[0,1]") "}", 1, {"tensor a", "shape is [1e0]"}},
        {"{" ENTRY("a", "U8", "[\"1\"]", "[0,1]") "}", 1, {"tensor a", "shape is [\"1\"]"}},
        {"{" ENTRY("a", "U8", "[null]", "[0,1]") "}", 1, {"tensor a", "shape is [null]"}},
        {"{" ENTRY("a", "U8", "[-1]", "[0,1]") "}", 1, {"tensor a", "shape is [-1]"}},
        {"{" ENTRY("a", "U8", "[99999999999999999999]", "[0,1]") "}",
         1,
         {"tensor a", "shape is ["}},
        {"{" ENTRY("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}",
         1,
         {"tensor a", "9 dimensions", "8"}},
        {"{" ENTRY("a", "F32", "[4294967296,4294967296]", "[0,4]") "}",
         4,
         {"tensor a", "[4294967296,4294967296]", "64 bits"}},
        {"{" ENTRY("a", "F64", "[4611686018427387904]", "[0,8]") "}",
         8,
         {"tensor a", "4611686018427387904", "64 bits"}},
        {"{" ENTRY("a", "U8", "[4294967296,4294967296,0]", "[0,0]") "}",
         0,
         {"tensor a", "64 bits"}},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, {"tensor a", "data_offsets is absent"}},
        {"{" ENTRY("a", "U8", "[1]", "[0]") "}", 1, {"tensor a", "data_offsets is [0]"}},
        {"{" ENTRY("a", "U8", "[1]", "[0,1,2]") "}", 1, {"tensor a", "data_offsets is [0,1,2]"}},
        {"{" ENTRY("a", "U8", "[1]", "[0.0,1]") "}", 1, {"tensor a", "data_offsets is [0.0,1]"}},
        {"{" ENTRY("a", "U8", "[1]", "[-1,0]") "}", 1, {"tensor a", "data_offsets is [-1,0]"}},
        {"{" ENTRY("a", "U8", "[1]", "[1,0]") "}", 1, {"tensor a", "data_offsets is [1,0]"}},
        {"{" ENTRY("a", "U8", "[1]", "[0,18446744073709551615]") "}",
         1,
         {"tensor a", "18446744073709551615"}},
        {"{" ENTRY("a", "U8", "[9]", "[0,9]") "}", 4, {"tensor a", "end at 9", "4 bytes"}},
        {"{" ENTRY("a", "F32", "[2]", "[0,4]") "}", 4, {"tensor a", "hold 4 bytes", "require 8"}},
        {"{" ENTRY("a", "U8", "[]", "[0,2]") "}", 2, {"tensor a", "hold 2 bytes", "require 1"}},
        {"{" ENTRY("a", "U8", "[2]", "[0,2]") "," ENTRY("b", "U8", "[2]", "[3,5]") "}",
         5,
         {"tensor b", "1 bytes", "offset 3"}},
        {"{" ENTRY("a", "U8", "[2]", "[1,3]") "}", 3, {"tensor a", "1 bytes", "offset 1"}},
        {"{" ENTRY("a", "U8", "[2]", "[0,2]") "," ENTRY("b", "U8", "[2]", "[1,3]") "}",
         3,
         {"tensor b", "offset 1", "tensor a"}},
        {"{" ENTRY("a", "U8", "[2]", "[0,2]") "," ENTRY("b", "U8", "[2]", "[0,2]") "}",
         2,
         {"offset 0", "ends at 2"}},
        {"{" ENTRY("a", "U8", "[2]", "[0,2]") "}", 5, {"3 bytes after the last tensor"}},
        {"{" ENTRY("a", "U8", "[1]", "[0,1]") "," ENTRY("a", "U8", "[1]", "[0,1]") "}",
         1,
         {"tensor \"a\"", "twice"}},
        {"{" ENTRY("a", "U8", "[1]", "[0,1]") "," ENTRY("\\u0061", "U8", "[1]", "[0,1]") "}",
         1,
         {"twice", "spelled in two ways"}},
        {"{\"__metadata__\":{}," ENTRY("a", "U8", "[1]", "[0,1]") ",\"__metadata__\":{}}",
         1,
         {"__metadata__", "twice"}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct image f = file_of(rows[i].header, strlen(rows[i].header), rows[i].data);
        expect_error(&f, (const char *[]){"m.safetensors"}, 1);
        expect_error(&f, rows[i].parts, 3);
        free(f.bytes);
    }
}

static void malformed_files(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *parts[3];
    } rows[] = {
        {"", 0, {"0 bytes", "too few"}},
        {"\x02\0\0\0", 4, {"4 bytes", "too few"}},
        {"\0\0\0\0\0\0\0\0", 8, {"header", "0 bytes"}},
        {"\x03\0\0\0\0\0\0\0{}", 10, {"3 bytes", "10"}},
        {"\x01\xe1\xf5\x05\0\0\0\0{}", 10, {"100000001", "limit"}},
        {"\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, {"18446744073709551615", "limit"}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct image f = {malloc(rows[i].size + 1), rows[i].size};
        memcpy(f.bytes, rows[i].bytes, rows[i].size);
        expect_error(&f, rows[i].parts, 3);
        free(f.bytes);
    }
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    enum { DEPTH = 100000 };
    char *header = malloc(DEPTH + 5);
    memcpy(header, "{\"a\":", 5);
    memset(header + 5, '[', DEPTH);
    struct image f = file_of(header, DEPTH + 5, 0);
    expect_error(&f, (const char *[]){"m.safetensors", "deep"}, 2);
    free(f.bytes);
    free(header);
}

/* One tensor more than the limit, all of them empty. */
static void too_many_tensors_are_refused(void **state)
{
    (void)state;
    struct buf b = buf_with_max(64 << 20);
    buf_add_text(&b, "{");
    for (int i = 0; i <= EY_MAX_TENSORS + 1; i++)
        buf_printf(&b, "%s\"%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                   i ? "," : "", i);
    buf_add_text(&b, "}");
    assert_false(b.failed);
    struct image f = file_of(b.data, b.size, 0);
    expect_error(&f, (const char *[]){"100002", "the limit is 100000"}, 2);
    free(f.bytes);
    buf_free(&b);
}

static void a_good_file_is_read_in_place(void **state)
{
    (void)state;
    const char *header =
        "{\"__metadata__\":{\"format\":\"pt\"}," ENTRY("w", "F32", "[2,3]", "[0,24]") "," ENTRY(
            "scalar", "BF16", "[]", "[24,26]") "," ENTRY("none", "F16", "[0,7]",
                                                         "[26,26]") "," ENTRY("b", "BOOL", "[1]",
                                                                              "[26,27]") "} ";
    struct image f = file_of(header, strlen(header), 27);
    struct safetensors *file;
    ey_err e;
    assert_true(safetensors_open_memory(&file, f.bytes, f.size, "m.safetensors", &e));
    assert_int_equal(safetensors_count(file), 4);
    const struct tensor_view *w = safetensors_find(file, "w"),
                             *scalar = safetensors_find(file, "scalar");
    assert_int_equal(w->dtype, DTYPE_F32);
    assert_int_equal(w->n_dims, 2);
    assert_int_equal(w->shape[1], 3);
    assert_int_equal(w->size, 24);
    assert_ptr_equal(w->data, f.bytes + 8 + strlen(header));
    assert_string_equal(w->file, "m.safetensors");
    assert_int_equal(scalar->n_dims, 0);
    assert_int_equal(scalar->data[0], 24);
    assert_int_equal(safetensors_find(file, "none")->size, 0);
    assert_null(safetensors_find(file, "x"));
    assert_null(safetensors_find(file, "__metadata__"));
    assert_null(safetensors_at(file, 4));
    safetensors_close(file);
    free(f.bytes);
}

static void an_empty_header_is_a_file_without_tensors(void **state)
{
    (void)state;
    struct image f = file_of("{}      ", 8, 0);
    struct safetensors *file;
    assert_true(safetensors_open_memory(&file, f.bytes, f.size, "m.safetensors", NULL));
    assert_int_equal(safetensors_count(file), 0);
    assert_null(safetensors_find(file, "a"));
    safetensors_close(file);
    safetensors_close(NULL);
    free(f.bytes);
}

/* The limit is that of the safetensors library; that of other JSON is lower. */
static void a_header_of_nearly_the_limit_is_read(void **state)
{
    (void)state;
    enum { N = 99999000 };
    static const char begin[] = "{\"__metadata__\":{\"a\":\"";
    char *header = malloc(N);
    assert_non_null(header);
    memset(header, 'x', N);
    memcpy(header, begin, sizeof(begin) - 1);
    memcpy(header + N - 3, "\"}}", 3);
    struct image f = file_of(header, N, 0);
    struct safetensors *file = NULL;
    ey_err e = {0};
    bool ok = safetensors_open_memory(&file, f.bytes, f.size, "m.safetensors", &e);
    if (!ok) fail_msg("%s", e.text);
    safetensors_close(file);
    free(header);
    free(f.bytes);
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    struct safetensors *file;
    ey_err e;
    assert_false(safetensors_open(&file, "/nowhere/m.safetensors", &e));
    assert_int_equal(e.code, EY_NOT_FOUND);
    assert_non_null(strstr(e.text, "/nowhere/m.safetensors"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_headers),
        cmocka_unit_test(malformed_files),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(too_many_tensors_are_refused),
        cmocka_unit_test(a_good_file_is_read_in_place),
        cmocka_unit_test(an_empty_header_is_a_file_without_tensors),
        cmocka_unit_test(a_header_of_nearly_the_limit_is_read),
        cmocka_unit_test(a_missing_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
