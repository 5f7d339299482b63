/* SPDX-License-Identifier: Apache-2.0 */
/* Messages can be read back, and each wrong field is refused. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox/sandbox_message.h"
#include "sandbox/sandbox_socket.h"
#include "sandbox/sealed_memory.h"
#include "sandbox/test_sandbox.h"

static const char *argument[MAX_PROGRAM_ARGUMENTS + 1];

static void jobs_come_back(void **state)
{
    (void)state;
    uint8_t bytes[JOB_MESSAGE_BYTES + 16];
    struct job_message back,
        job = {JOB_PROGRAM, 1234567890123, 42, (uint64_t)1 << 40, 7, 2}; /* argc */
    job.input = 1 << 30;
    job_message_write(bytes, &job);
    memcpy(bytes + JOB_MESSAGE_BYTES, "ls\0-l", 6);
    assert_true(job_message_read(&back, argument, bytes, JOB_MESSAGE_BYTES + 6));
    assert_int_equal(back.kind, JOB_PROGRAM);
    assert_int_equal(back.input, 1 << 30);
    assert_int_equal(back.output, 42);
    assert_true(back.memory == (uint64_t)1 << 40);
    assert_int_equal(back.cpu_seconds, 7);
    assert_string_equal(argument[0], "ls");
    assert_string_equal(argument[1], "-l");
    assert_null(argument[2]);
    /* too few arguments, too many, or one without a NUL */
    assert_false(job_message_read(&back, argument, bytes, JOB_MESSAGE_BYTES));
    assert_false(job_message_read(&back, argument, bytes, JOB_MESSAGE_BYTES + 5));
    bytes[JOB_MESSAGE_BYTES + 6] = 0;
    assert_false(job_message_read(&back, argument, bytes, JOB_MESSAGE_BYTES + 7));
}

/* Whether this byte of a valid message may have any value. */
static bool is_free(size_t at, const size_t free_fields[][2], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (at >= free_fields[i][0] && at < free_fields[i][1]) return true;
    return false;
}

static void every_field_of_a_job_is_checked(void **state)
{
    (void)state;
    /* seconds, and lengths below 2^40 */
    static const size_t free_fields[][2] = {{12, 16}, {16, 21}, {24, 29}, {32, 37}};
    uint8_t bytes[JOB_MESSAGE_BYTES];
    struct job_message back, job = {JOB_AVIF, 10, 20, 30, 7, 0};
    job_message_write(bytes, &job);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] ^= 0x80;
        assert_int_equal(job_message_read(&back, argument, bytes, sizeof(bytes)),
                         is_free(i, free_fields, 4));
        assert_false(job_message_read(&back, argument, bytes, i));
        bytes[i] ^= 0x80;
    }
}

static void every_field_of_a_reply_is_checked(void **state)
{
    (void)state;
    static const size_t free_fields[][2] = {{16, 24}};
    uint8_t bytes[REPLY_MESSAGE_BYTES];
    struct reply_message back, reply = {REPLY_DAMAGED, 99, "bad\n\x80 file"};
    reply_message_write(bytes, &reply);
    assert_true(reply_message_read(&back, bytes, sizeof(bytes)));
    assert_string_equal(back.text, "bad?? file");
    assert_int_equal(back.value, 99);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] ^= 0x80;
        assert_int_equal(reply_message_read(&back, bytes, sizeof(bytes)),
                         is_free(i, free_fields, 1));
        assert_false(reply_message_read(&back, bytes, i));
        bytes[i] ^= 0x80;
    }
}

static void bitmaps_are_exactly_as_long_as_they_say(void **state)
{
    (void)state;
    uint8_t bytes[BITMAP_HEADER_BYTES];
    struct bitmap_header back, header = {7, 5, 3};
    const size_t n = BITMAP_HEADER_BYTES + 7 * 5 * 3;
    bitmap_header_write(bytes, &header);
    assert_true(bitmap_header_read(&back, bytes, n));
    assert_int_equal(back.width, 7);
    assert_false(bitmap_header_read(&back, bytes, n - 1));
    assert_false(bitmap_header_read(&back, bytes, n + 1));
    assert_false(bitmap_header_read(&back, bytes, BITMAP_HEADER_BYTES));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] ^= 0x80;
        assert_false(bitmap_header_read(&back, bytes, n));
        bytes[i] ^= 0x80;
    }
    /* 65536 squared overflows 32 bits */
    bitmap_header_write(bytes, &(struct bitmap_header){65536, 65536, 4});
    assert_false(bitmap_header_read(&back, bytes, BITMAP_HEADER_BYTES));
}

static void only_sealed_memory_is_mapped(void **state)
{
    (void)state;
    void *map;
    size_t n;
    int fd = sealed_memory_create("test", NULL);
    assert_int_equal(write(fd, "hello", 5), 5);
    assert_false(sealed_memory_map(&map, &n, fd, 100));
    assert_true(sealed_memory_seal(fd));
    assert_false(sealed_memory_map(&map, &n, fd, 4));
    assert_true(sealed_memory_map(&map, &n, fd, 5));
    assert_int_equal(n, 5);
    assert_true(write(fd, "x", 1) < 0);
    assert_true(ftruncate(fd, 1) < 0);
    assert_true(mmap(NULL, 5, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    munmap(map, n);
    close(fd);
    int file = open("tests/image/data/plain.avif", O_RDONLY);
    assert_false(sealed_memory_map(&map, &n, file, 1 << 20));
    close(file);
}

/* A message with one descriptor too many is refused, and all are closed. */
static void too_many_descriptors_are_refused(void **state)
{
    (void)state;
    enum { SENT = JOB_DESCRIPTORS + 1 };
    union {
        char bytes[CMSG_SPACE(sizeof(int) * SENT)];
        struct cmsghdr align;
    } control = {{0}};
    int ends[2], fds[SENT] = {0, 0, 0, 0}, got[JOB_DESCRIPTORS];
    char byte = 1;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){CMSG_LEN(sizeof(fds)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(head), fds, sizeof(fds));
    const int next = dup(0);
    close(next);
    assert_int_equal(sendmsg(ends[0], &message, 0), 1);
    assert_int_equal(socket_receive(ends[1], &byte, 1, got, JOB_DESCRIPTORS), -1);
    assert_int_equal(dup(0), next); /* no descriptor leaked */
    close(next);
    close(ends[0]);
    close(ends[1]);
}

int run_message_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_come_back),
        cmocka_unit_test(every_field_of_a_job_is_checked),
        cmocka_unit_test(every_field_of_a_reply_is_checked),
        cmocka_unit_test(bitmaps_are_exactly_as_long_as_they_say),
        cmocka_unit_test(only_sealed_memory_is_mapped),
        cmocka_unit_test(too_many_descriptors_are_refused),
    };
    return cmocka_run_group_tests_name("messages", tests, NULL, NULL);
}
