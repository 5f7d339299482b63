/* SPDX-License-Identifier: Apache-2.0 */
/* Which file an address is mapped from, and the message after reading a truncated part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mapped_files.h"

enum { FILE_BYTES = 1 << 16, HEARD = 8192 };
static char path[] = "/tmp/eyelet-mapped-XXXXXX";

static void write_file(void)
{
    static const char zeros[FILE_BYTES];
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(file_write(fd, zeros, sizeof(zeros)));
    close(fd);
}

static void maps_are_found_until_they_close(void **state)
{
    (void)state;
    struct file_map map, again;
    ey_err e;
    write_file();
    assert_true(file_map_open(&map, path, &e));
    assert_true(file_map_open(&again, path, &e));
    assert_string_equal(mapped_files_find(map.data), path);
    assert_string_equal(mapped_files_find(map.data + FILE_BYTES - 1), path);
    assert_null(mapped_files_find(&map));
    assert_null(mapped_files_find(NULL));
    const uint8_t *was = map.data;
    file_map_close(&map);
    assert_null(mapped_files_find(was));
    assert_string_equal(mapped_files_find(again.data), path);
    file_map_close(&again);
}

/* Forks a process that maps the file, truncates it and runs `then`. Returns its exit status and, in
 * `said`, its standard error. */
static int status_of(void (*then)(const struct file_map *map), char *said)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    write_file();
    pid_t pid = fork();
    if (!pid) {
        struct file_map map;
        dup2(ends[1], STDERR_FILENO);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGBUS, SIG_DFL);
        mapped_files_watch();
        if (!file_map_open(&map, path, NULL) || truncate(path, 0) != 0) _exit(1);
        then(&map);
        _exit(0);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], said, HEARD - 1);
    said[n > 0 ? n : 0] = 0;
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void read_what_is_gone(const struct file_map *map)
{
    *(volatile const uint8_t *)(map->data + FILE_BYTES / 2);
}

static void read_another_map(const struct file_map *map)
{
    struct file_map other = *map;
    mapped_files_remove(map->data);
    read_what_is_gone(&other);
}

static void be_sent_the_signal(const struct file_map *map)
{
    (void)map;
    raise(SIGBUS);
}

static void a_lost_file_is_named(void **state)
{
    (void)state;
    char said[HEARD];
    assert_int_equal(status_of(read_what_is_gone, said), MAPPED_FILE_LOST_STATUS);
    assert_non_null(strstr(said, path));
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
}

static void other_signals_end_it_as_before(void **state)
{
    (void)state;
    char said[HEARD];
    assert_int_equal(status_of(read_another_map, said), 128 + SIGBUS);
    assert_string_equal(said, "");
    assert_int_equal(status_of(be_sent_the_signal, said), 128 + SIGBUS);
}

static void a_pipe_is_refused(void **state)
{
    (void)state;
    char *data;
    size_t n;
    ey_err e;
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(file_read_regular(&data, &n, path, FILE_BYTES, &e));
    assert_non_null(strstr(e.text, path));
    assert_non_null(strstr(e.text, "not a regular file"));
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_are_found_until_they_close), cmocka_unit_test(a_lost_file_is_named),
        cmocka_unit_test(other_signals_end_it_as_before),
        cmocka_unit_test(a_pipe_is_refused), /* last, as it replaces the file */
    };
    int fd = mkstemp(path);
    if (fd < 0) return 1;
    close(fd);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
