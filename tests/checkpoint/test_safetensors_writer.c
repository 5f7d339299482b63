/* SPDX-License-Identifier: Apache-2.0 */
/* The reader opens what the safetensors writer writes; the writer holds only the header in memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/allocations.h"
#include "base/file.h"
#include "base/full_disk.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors_writer.h"
#include "temp_dir.h"

static const char *dir;

static int create_file(const char *name)
{
    int fd = open(temp_path(dir, name), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(fd >= 0);
    return fd;
}

static uint8_t byte_at(size_t i)
{
    return (uint8_t)(i * 31 + i / 251);
}

/* ---- reading written files ---- */

static const struct {
    const char *name;
    enum dtype dtype;
    int n_dims;
    int64_t shape[EY_MAX_DIMS];
    size_t size;
} samples[] = {{"w", DTYPE_BF16, 2, {3, 5}, 30},          {"a scalar", DTYPE_F32, 0, {0}, 4},
               {"empty", DTYPE_I64, 2, {0, 7}, 0},        {"\"\\\n\xc3\xa4", DTYPE_U8, 1, {11}, 11},
               {"m.0.x", DTYPE_F8_E4M3, 3, {2, 2, 2}, 8}, {"last", DTYPE_F64, 1, {1}, 8}};
enum { N_SAMPLES = sizeof(samples) / sizeof(samples[0]) };

static void every_tensor_is_read_back(void **state)
{
    (void)state;
    uint64_t offset[N_SAMPLES], at = 0;
    struct safetensors_writer w;
    int fd = create_file("samples.safetensors");
    safetensors_writer_begin(&w, fd);
    for (size_t i = 0; i < N_SAMPLES; i++) {
        offset[i] = safetensors_writer_add(&w, samples[i].name, samples[i].dtype, samples[i].shape,
                                           samples[i].n_dims);
        assert_true(offset[i] == at);
        at += samples[i].size;
    }
    assert_true(w.data_size == at);
    assert_true(safetensors_write_header(&w));
    for (size_t i = N_SAMPLES; i-- > 0;) /* byte by byte, the last tensor first */
        for (size_t k = samples[i].size; k-- > 0;) {
            uint8_t byte = byte_at(offset[i] + k);
            assert_true(safetensors_write_data(&w, &byte, 1, offset[i] + k));
        }
    close(fd);

    struct safetensors *file;
    ey_err e;
    if (!safetensors_open(&file, temp_path(dir, "samples.safetensors"), &e)) fail_msg("%s", e.text);
    assert_int_equal(safetensors_count(file), N_SAMPLES);
    for (size_t i = 0; i < N_SAMPLES; i++) {
        const struct tensor_view *t = safetensors_find(file, samples[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, samples[i].dtype);
        assert_int_equal(t->n_dims, samples[i].n_dims);
        assert_memory_equal(t->shape, samples[i].shape, (size_t)t->n_dims * sizeof(t->shape[0]));
        assert_int_equal(t->size, samples[i].size);
        for (size_t k = 0; k < t->size; k++)
            assert_int_equal(t->data[k], byte_at(offset[i] + k));
    }
    safetensors_close(file);
}

/* The format: an 8-byte little-endian length, then a header that begins with { and may end in
 * blanks. The writer pads it to a multiple of 8. */
static void the_header_is_as_the_format_says(void **state)
{
    (void)state;
    static const char json[] = "{\"__metadata__\":{\"format\":\"pt\"},\"w\":{\"dtype\":\"F16\","
                               "\"shape\":[2,3],\"data_offsets\":[0,12]}}";
    const int64_t shape[] = {2, 3};
    struct safetensors_writer w;
    char *bytes;
    size_t n;
    int fd = create_file("one.safetensors");
    safetensors_writer_begin(&w, fd);
    safetensors_writer_add(&w, "w", DTYPE_F16, shape, 2);
    assert_true(safetensors_write_header(&w));
    assert_true(safetensors_write_data(&w, "abcdefghijkl", 12, 0));
    close(fd);
    assert_true(file_read(&bytes, &n, temp_path(dir, "one.safetensors"), 4096, NULL));
    const size_t padded = (strlen(json) + 7) / 8 * 8;
    assert_int_equal(n, 8 + padded + 12);
    assert_int_equal(bytes[0], padded);
    assert_memory_equal(bytes + 1, "\0\0\0\0\0\0", 7);
    assert_memory_equal(bytes + 8, json, strlen(json));
    for (size_t i = strlen(json); i < padded; i++)
        assert_int_equal(bytes[8 + i], ' ');
    assert_memory_equal(bytes + 8 + padded, "abcdefghijkl", 12);
    free(bytes);
}

static void every_dtype_of_files_has_a_name(void **state)
{
    (void)state;
    for (enum dtype d = DTYPE_NONE; d <= DTYPE_INT4; d++)
        assert_int_equal(dtype_info(d)->name != NULL, d != DTYPE_NONE && d != DTYPE_INT4);
}

/* ---- memory ---- */

/* 48 MiB pass through one buffer of 1 MiB; nothing else is allocated. */
static void data_is_not_kept(void **state)
{
    (void)state;
    enum { PIECE = 1 << 20, PIECES = 48 };
    static uint8_t piece[PIECE];
    const int64_t shape[] = {PIECES, PIECE};
    struct safetensors_writer w;
    int fd = create_file("large.safetensors");
    safetensors_writer_begin(&w, fd);
    safetensors_writer_add(&w, "large", DTYPE_U8, shape, 2);
    assert_true(w.header.capacity <= 4096);
    assert_true(safetensors_write_header(&w));
    assert_null(w.header.data);
    allocations_start(NULL);
    bool ok = true;
    for (int i = 0; i < PIECES; i++) {
        memset(piece, i, sizeof(piece));
        ok &= safetensors_write_data(&w, piece, PIECE, (uint64_t)i * PIECE);
    }
    assert_int_equal(allocations_stop(), 0);
    assert_true(ok);
    close(fd);
    struct safetensors *file;
    ey_err e;
    if (!safetensors_open(&file, temp_path(dir, "large.safetensors"), &e)) fail_msg("%s", e.text);
    for (int i = 0; i < PIECES; i++)
        assert_int_equal(safetensors_at(file, 0)->data[(size_t)i * PIECE + PIECE - 1], i);
    safetensors_close(file);
}

/* ---- errors ---- */

static void a_full_disk_is_an_error(void **state)
{
    (void)state;
    const int64_t shape[] = {1 << 16};
    static uint8_t bytes[1 << 16];
    for (uint64_t room = 0; room < 40000; room += 20000) {
        struct safetensors_writer w;
        int fd = create_file("full.safetensors");
        safetensors_writer_begin(&w, fd);
        safetensors_writer_add(&w, "w", DTYPE_U8, shape, 1);
        full_disk_start(room, false);
        bool began = safetensors_write_header(&w);
        bool ok = began && safetensors_write_data(&w, bytes, sizeof(bytes), 0);
        int error = errno;
        full_disk_stop();
        assert_int_equal(began, room > 0);
        assert_false(ok);
        assert_int_equal(error, ENOSPC);
        close(fd);
    }
}

static void a_header_beyond_the_limit_is_an_error(void **state)
{
    (void)state;
    const int64_t shape[] = {1};
    const size_t n = EY_MAX_SAFETENSORS_HEADER / 4;
    char *name = malloc(n + 1);
    memset(name, 'n', n);
    name[n] = 0;
    struct safetensors_writer w;
    int fd = create_file("long.safetensors");
    safetensors_writer_begin(&w, fd);
    for (int i = 0; i < 5; i++) {
        name[0] = (char)('a' + i);
        safetensors_writer_add(&w, name, DTYPE_U8, shape, 1);
    }
    assert_false(safetensors_write_header(&w));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(lseek(fd, 0, SEEK_END), 0);
    close(fd);
    free(name);
}

/* ---- several files ---- */

static void shards_and_index_are_a_checkpoint(void **state)
{
    (void)state;
    enum { N_SHARDS = 3 };
    const char *whole = temp_path(dir, "whole");
    const int64_t shape[] = {2};
    struct buf text = buf_with_max(4096);
    struct json_writer index = shard_index_open(&text, 2 * N_SHARDS);
    temp_text(dir, "whole/config.json", "{}");
    for (int i = 0; i < N_SHARDS; i++) {
        char file[SHARD_NAME_BYTES], path[SHARD_NAME_BYTES + 8], name[2] = {(char)('a' + i), 0};
        struct safetensors_writer w;
        shard_file_name(file, i, N_SHARDS);
        snprintf(path, sizeof(path), "whole/%s", file);
        int fd = create_file(path);
        safetensors_writer_begin(&w, fd);
        safetensors_writer_add(&w, name, DTYPE_U8, shape, 1);
        assert_true(safetensors_write_header(&w));
        assert_true(safetensors_write_data(&w, "xy", 2, 0));
        close(fd);
        shard_index_add(&index, name, i, N_SHARDS);
    }
    shard_index_close(&index);
    assert_string_equal(text.data, "{\n  \"metadata\": {\n    \"total_size\": 6\n  },\n"
                                   "  \"weight_map\": {\n"
                                   "    \"a\": \"model-00001-of-00003.safetensors\",\n"
                                   "    \"b\": \"model-00002-of-00003.safetensors\",\n"
                                   "    \"c\": \"model-00003-of-00003.safetensors\"\n  }\n}\n");
    temp_text(dir, "whole/model.safetensors.index.json", text.data);
    struct checkpoint *c;
    ey_err e;
    if (!checkpoint_open(&c, whole, &e)) fail_msg("%s", e.text);
    assert_int_equal(checkpoint_count(c), N_SHARDS);
    assert_memory_equal(checkpoint_find(c, "b")->data, "xy", 2);
    checkpoint_close(c);
    buf_free(&text);
    char one[SHARD_NAME_BYTES];
    shard_file_name(one, 0, 1);
    assert_string_equal(one, "model.safetensors");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tensor_is_read_back),
        cmocka_unit_test(the_header_is_as_the_format_says),
        cmocka_unit_test(every_dtype_of_files_has_a_name),
        cmocka_unit_test(data_is_not_kept),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test(a_header_beyond_the_limit_is_an_error),
        cmocka_unit_test(shards_and_index_are_a_checkpoint),
    };
    dir = temp_dir_until_exit();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
