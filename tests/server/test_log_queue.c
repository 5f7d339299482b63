/* SPDX-License-Identifier: Apache-2.0 */
/* The log's queue: order, dropped lines, readers that do not read, closed descriptors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "server/log_queue.h"

enum { CAPACITY = 4096, PIPE_BYTES = 4096, HEARD = 1 << 20 };

static void make_pipe(int ends[2])
{
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES) > 0);
}

/* Reads until all writers have closed. */
static char *hear_all(int fd)
{
    char *text = calloc(1, HEARD);
    assert_non_null(text);
    for (size_t n = 0; n < HEARD - 1;) {
        ssize_t got = read(fd, text + n, HEARD - 1 - n);
        if (got <= 0) break;
        n += (size_t)got;
    }
    return text;
}

static void add_numbered(struct log_queue *q, int first, int end)
{
    char line[32];
    for (int i = first; i < end; i++)
        log_queue_add(q, line, (size_t)snprintf(line, sizeof(line), "line %d\n", i));
}

static void lines_come_in_order(void **state)
{
    (void)state;
    int ends[2];
    make_pipe(ends);
    struct log_queue *q = log_queue_open(ends[1], CAPACITY);
    assert_non_null(q);
    add_numbered(q, 0, 100);
    assert_true(log_queue_close(q, 10));
    close(ends[1]);
    char *text = hear_all(ends[0]), *at = text, line[32];
    for (int i = 0; i < 100; i++) {
        int n = snprintf(line, sizeof(line), "line %d\n", i);
        assert_memory_equal(at, line, (size_t)n);
        at += n;
    }
    assert_string_equal(at, "");
    free(text);
    close(ends[0]);
}

struct heard {
    size_t lines, dropped, notes;
};

/* Counts the messages and notes in the text's complete lines, and the dropped lines in the notes.
 */
static struct heard count_heard(const char *text)
{
    struct heard all = {0};
    for (const char *end; (end = strchr(text, '\n')) != NULL; text = end + 1) {
        const char *note = strstr(text, " lines dropped: ");
        const bool is_note = note && note < end;
        if (is_note) all.dropped += strtoul(text, NULL, 10);
        all.notes += is_note;
        all.lines += !is_note;
    }
    return all;
}

/* Each line is written or counted as dropped. The writer may drain the queue in between, so there
 * may be several notes. */
static void dropped_lines_are_counted(void **state)
{
    (void)state;
    enum { LINES = 10000 };
    int ends[2];
    make_pipe(ends);
    struct log_queue *q = log_queue_open(ends[1], CAPACITY);
    assert_non_null(q);
    double start = seconds_now();
    add_numbered(q, 0, LINES);
    assert_true(seconds_now() - start < 5);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    size_t n = 0;
    struct heard all = {0};
    char *text = calloc(1, HEARD);
    assert_non_null(text);
    for (start = seconds_now(); all.lines + all.dropped < LINES && seconds_now() - start < 30;
         usleep(1000)) {
        ssize_t got = read(ends[0], text + n, HEARD - 1 - n);
        n += got > 0 ? (size_t)got : 0;
        all = count_heard(text);
    }
    free(text);
    assert_true(all.notes >= 1);
    assert_int_equal(all.lines + all.dropped, LINES);
    assert_true(log_queue_close(q, 10));
    close(ends[0]);
    close(ends[1]);
}

static void slow_readers_do_not_block(void **state)
{
    (void)state;
    int ends[2];
    make_pipe(ends);
    struct log_queue *q = log_queue_open(ends[1], CAPACITY);
    assert_non_null(q);
    add_numbered(q, 0, 5000);
    double start = seconds_now();
    assert_false(log_queue_close(q, 0.2));
    assert_true(seconds_now() - start < 5);
    close(ends[0]); /* the reading thread gets the end of file and ends */
}

static void closed_descriptors_discard_lines(void **state)
{
    (void)state;
    int ends[2];
    make_pipe(ends);
    close(ends[0]);
    struct log_queue *q = log_queue_open(ends[1], CAPACITY);
    assert_non_null(q);
    add_numbered(q, 0, 5000);
    assert_true(log_queue_close(q, 10));
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_in_order),
        cmocka_unit_test(dropped_lines_are_counted),
        cmocka_unit_test(slow_readers_do_not_block),
        cmocka_unit_test(closed_descriptors_discard_lines),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
