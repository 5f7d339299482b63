/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs (results, limits, cancelling) and child processes. */
#include "sandbox/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/processors.h"
#include "sandbox/landlock.h"
#include "sandbox/sandbox_message.h"
#include "sandbox/sandbox_socket.h"
#include "sandbox/test_sandbox.h"

static const struct sandbox_limits ample = {
    .memory = (uint64_t)1 << 30, .output = 1 << 24, .seconds = 30};

static char *read_data(const char *path, size_t *n)
{
    char *data = NULL;
    ey_err e;
    if (!file_read(&data, n, path, 1 << 20, &e)) fail_msg("%s", e.text);
    return data;
}

/* Decodes a file; skips the test if libheif is missing. */
static bool decode_file(const char *path, const struct sandbox_limits *limits,
                        struct sandbox_image *out, ey_err *e)
{
    size_t n;
    char *data = read_data(path, &n);
    bool ok = sandbox_decode(out, strstr(path, ".avif") ? SANDBOX_AVIF : SANDBOX_HEIC, data, n,
                             limits, e);
    free(data);
    if (!ok && strstr(e->text, "needs libheif")) skip();
    return ok;
}

#define PLAIN "tests/image/data/plain.avif"
#define SLOW "tests/abuse/data/claims-64.avif" /* 8192x8192: seconds of work, 900 MiB */

static void images_come_back(void **state)
{
    (void)state;
    struct sandbox_image image;
    ey_err e;
    static const char *const files[] = {PLAIN, "tests/image/data/alpha.avif",
                                        "tests/image/data/plain.heic"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (!decode_file(files[i], &ample, &image, &e)) fail_msg("%s: %s", files[i], e.text);
        assert_int_equal(image.width, 48);
        assert_int_equal(image.height, 32);
        assert_int_equal(image.channels, i == 1 ? 4 : 3);
        sandbox_image_close(&image);
    }
}

/* With small limits a job does not wait for its worker to end. Some jobs have damaged input or
 * ample limits. */
static void jobs_follow_one_another(void **state)
{
    (void)state;
    struct sandbox_limits small = {.memory = 32 << 20, .output = 1 << 20, .seconds = 30};
    for (int i = 0; i < 60; i++) {
        struct sandbox_image image;
        ey_err e;
        bool damaged = i % 3 == 1;
        const struct sandbox_limits *limits = i % 4 == 3 ? &ample : &small;
        bool ok = decode_file(damaged ? PLAIN ".ppm" : PLAIN, limits, &image, &e);
        if (ok == damaged) fail_msg("job %d: %s", i, ok ? "it decodes" : e.text);
        if (damaged) assert_int_equal(e.code, EY_BAD_IMAGE);
        if (ok) assert_int_equal(image.width, 48);
        if (ok) sandbox_image_close(&image);
    }
}

static void damaged_input_is_named(void **state)
{
    (void)state;
    struct sandbox_image image;
    ey_err e;
    assert_false(decode_file(PLAIN ".ppm", &ample, &image, &e));
    assert_int_equal(e.code, EY_BAD_IMAGE);
    size_t n;
    char *data = read_data(PLAIN, &n);
    assert_false(sandbox_decode(&image, SANDBOX_AVIF, data, n / 2, &ample, &e));
    assert_int_equal(e.code, EY_BAD_IMAGE);
    free(data);
}

static void memory_is_limited(void **state)
{
#ifdef EY_SANITIZED
    skip(); /* sanitizers disable the limit of address space */
#endif
    (void)state;
    struct sandbox_image image;
    struct sandbox_limits limits = ample;
    ey_err e;
    limits.memory = 64 << 20;
    limits.output = (uint64_t)256 << 20;
    double start = seconds_now();
    assert_false(decode_file(SLOW, &limits, &image, &e));
    assert_int_equal(e.code, EY_BAD_IMAGE);
    assert_true(seconds_now() - start < limits.seconds);
}

static void output_is_limited(void **state)
{
    (void)state;
    struct sandbox_image image;
    struct sandbox_limits limits = ample;
    ey_err e;
    limits.output = 1000;
    assert_false(decode_file(PLAIN, &limits, &image, &e));
    assert_non_null(strstr(e.text, "it decodes to more"));
}

static void time_is_limited(void **state)
{
    (void)state;
    struct sandbox_image image;
    struct sandbox_limits limits = {
        .memory = (uint64_t)2 << 30, .output = (uint64_t)256 << 20, .seconds = 0.2};
    ey_err e;
    double start = seconds_now();
    assert_false(decode_file(SLOW, &limits, &image, &e));
    assert_int_equal(e.code, EY_BAD_IMAGE);
    assert_non_null(strstr(e.text, "that are allowed"));
    assert_true(seconds_now() - start < 5);
}

static bool leave_soon(void *user)
{
    return seconds_now() > *(double *)user;
}

static void gone_clients_stop_decoding(void **state)
{
    (void)state;
    struct sandbox_image image;
    ey_err e;
    double start = seconds_now(), leaves = start + 0.3;
    struct sandbox_limits limits = {.memory = (uint64_t)2 << 30,
                                    .output = (uint64_t)256 << 20,
                                    .seconds = 60,
                                    .gone = leave_soon,
                                    .user = &leaves};
    assert_false(decode_file(SLOW, &limits, &image, &e));
    assert_int_equal(e.code, EY_CANCELLED);
    assert_true(seconds_now() - start < 5);
    /* the next job gets a new child */
    assert_true(decode_file(PLAIN, &ample, &image, &e));
    sandbox_image_close(&image);
}

static void *kill_soon(void *unused)
{
    (void)unused;
    usleep(300000);
    sandbox_kill_all();
    return NULL;
}

static void all_can_be_killed(void **state)
{
    (void)state;
    struct sandbox_image image;
    struct sandbox_limits limits = {
        .memory = (uint64_t)2 << 30, .output = (uint64_t)256 << 20, .seconds = 60};
    pthread_t thread;
    ey_err e;
    double start = seconds_now();
    pthread_create(&thread, NULL, kill_soon, NULL);
    assert_false(decode_file(SLOW, &limits, &image, &e));
    pthread_join(thread, NULL);
    assert_true(seconds_now() - start < 10);
    assert_true(decode_file(PLAIN, &ample, &image, &e));
    sandbox_image_close(&image);
}

/* ---- children ---- */

/* Counts descriptors other than standard error, /dev/null, sockets and memory files. */
static int foreign_descriptors(int pid)
{
    char path[64], target[300];
    int n = 0;
    snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        ssize_t length = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
        if (length < 0) continue;
        target[length] = 0;
        n += strcmp(target, "/dev/null") != 0 && strcmp(entry->d_name, "2") != 0 &&
             strncmp(target, "socket:", 7) != 0 && strncmp(target, "/memfd:eyelet", 13) != 0;
    }
    if (dir) closedir(dir);
    return n;
}

/* Polls, since the child may still be opening its libraries. */
static int lasting_foreign_descriptors(int pid)
{
    const struct timespec pause = {0, 20000000};
    const double start = seconds_now();
    while (foreign_descriptors(pid) && seconds_now() - start < 20)
        nanosleep(&pause, NULL);
    return foreign_descriptors(pid);
}

/* The parent of a living eyelet-decode process, or 0 if pid is no such process. */
static int helper_parent(const char *pid)
{
    char path[300], line[512] = "", letter = 'Z';
    int parent = 0;
    snprintf(path, sizeof(path), "/proc/%s/stat", pid);
    FILE *f = fopen(path, "r");
    if (f && fgets(line, sizeof(line), f))
        sscanf(line, "%*d (eyelet-decode) %c %d", &letter, &parent);
    if (f) fclose(f);
    return letter == 'Z' ? 0 : parent;
}

/* Finds the eyelet-decode children of a process; returns their number. */
static int helpers_of(int parent, int helper[8])
{
    int n = 0;
    DIR *dir = opendir("/proc");
    for (struct dirent *entry; (entry = readdir(dir)) && n < 8;)
        if (helper_parent(entry->d_name) == parent) helper[n++] = atoi(entry->d_name);
    closedir(dir);
    return n;
}

static void children_have_no_descriptors_of_ours(void **state)
{
    (void)state;
    struct sandbox_image image;
    ey_err e;
    int helper[8], secret = open("/etc/passwd", O_RDONLY); /* without O_CLOEXEC */
    sandbox_kill_all();
    assert_true(decode_file(PLAIN, &ample, &image, &e));
    sandbox_image_close(&image);
    int n = helpers_of(getpid(), helper);
    assert_true(n >= 1 && n <= 4);
    for (int i = 0; i < n; i++)
        assert_int_equal(lasting_foreign_descriptors(helper[i]), 0);
    close(secret);
}

/* If a decoding process is killed, its child and that child's worker end, too. */
static void children_die_with_their_parent(void **state)
{
    (void)state;
    int helper[8] = {0}, worker[8] = {0};
    char pid_text[16], worker_text[16];
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "test_sandbox", "--decode-slowly", (char *)NULL);
        _exit(1);
    }
    for (int i = 0; i < 200 && !worker[0]; i++) {
        usleep(50000);
        int n = helpers_of(pid, helper);
        for (int k = 0; k < n && !worker[0]; k++)
            if (helpers_of(helper[k], worker) > 0) helper[0] = helper[k];
    }
    assert_true(worker[0] > 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    snprintf(pid_text, sizeof(pid_text), "%d", helper[0]);
    snprintf(worker_text, sizeof(worker_text), "%d", worker[0]);
    for (int i = 0; i < 100 && (helper_parent(pid_text) || helper_parent(worker_text)); i++)
        usleep(50000);
    assert_int_equal(helper_parent(pid_text), 0);
    assert_int_equal(helper_parent(worker_text), 0);
}

static int decode_slowly(void)
{
    struct sandbox_image image;
    struct sandbox_limits limits = {
        .memory = (uint64_t)2 << 30, .output = (uint64_t)256 << 20, .seconds = 60};
    size_t n;
    char *data;
    ey_err e;
    sandbox_set_helper(EY_HELPER);
    if (!file_read(&data, &n, SLOW, 1 << 20, &e)) return 1;
    return !sandbox_decode(&image, SANDBOX_AVIF, data, n, &limits, &e);
}

static void *decode_many(void *failures)
{
    for (int i = 0; i < 10; i++) {
        struct sandbox_image image;
        size_t n;
        char *data;
        ey_err e;
        if (!file_read(&data, &n, PLAIN, 1 << 20, &e)) return NULL;
        if (sandbox_decode(&image, SANDBOX_AVIF, data, n, &ample, &e))
            sandbox_image_close(&image);
        else
            ++*(int *)failures;
        free(data);
    }
    return NULL;
}

static void many_threads_share_few_children(void **state)
{
    (void)state;
    enum { THREADS = 8 };
    pthread_t thread[THREADS];
    int failures[THREADS] = {0};
    struct sandbox_image image;
    ey_err e;
    if (decode_file(PLAIN, &ample, &image, &e)) sandbox_image_close(&image);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, decode_many, &failures[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(failures[i], 0);
    }
    int helper[8];
    assert_true(helpers_of(getpid(), helper) <= 5);
}

/* Restarts the children with this helper and decodes. A child of the previous helper may just have
 * started, so it tries up to five times to get the expected result. */
static void decode_with_helper(const char *helper, bool succeeds, ey_err *e)
{
    bool ok = !succeeds;
    sandbox_set_helper(helper);
    for (int i = 0; i < 5 && ok != succeeds; i++) {
        struct sandbox_image image;
        sandbox_kill_all();
        ok = decode_file(PLAIN, &ample, &image, e);
        if (ok) sandbox_image_close(&image);
    }
    assert_int_equal(ok, succeeds);
}

static void a_missing_helper_is_named(void **state)
{
    (void)state;
    ey_err e;
    double start = seconds_now();
    decode_with_helper("/no/such/eyelet-decode", false, &e);
    assert_non_null(strstr(e.text, "eyelet-decode is missing"));
    assert_true(seconds_now() - start < 5);
    decode_with_helper("/bin/false", false, &e);
    assert_non_null(strstr(e.text, "eyelet-decode cannot work here"));
    decode_with_helper(EY_HELPER, true, &e);
}

/* ---- programs ---- */

static bool run_program(const char *const *argv, const char *input, struct sandbox_output *out,
                        ey_err *e)
{
    const struct sandbox_limits limits = {
        .memory = (uint64_t)1 << 30, .output = 1 << 20, .seconds = 2};
    if (!landlock_available()) skip();
    return sandbox_run_program(out, argv, input, strlen(input), &limits, e);
}

static void programs_read_the_system_and_their_input(void **state)
{
    (void)state;
    struct sandbox_output out;
    ey_err e;
    const char *const sort[] = {"/usr/bin/sort", NULL};
    if (!run_program(sort, "b\na\n", &out, &e)) fail_msg("%s", e.text);
    assert_int_equal(out.n, 4);
    assert_memory_equal(out.bytes, "a\nb\n", 4);
    sandbox_output_close(&out);
    const char *const list[] = {"/usr/bin/ls", "/usr/bin/sort", NULL};
    if (!run_program(list, "x", &out, &e)) fail_msg("%s", e.text);
    assert_memory_equal(out.bytes, "/usr/bin/sort\n", 14);
    sandbox_output_close(&out);
}

static void programs_do_nothing_else(void **state)
{
    (void)state;
    static const char *const programs[][6] = {
        {"/usr/bin/cat", "/etc/passwd", NULL},
        {"/usr/bin/ls", "/home", NULL},
        {"/usr/bin/cat", "/proc/self/environ", NULL},
        {"/usr/bin/touch", "/tmp/eyelet-test-sandbox", NULL},
        {"/usr/bin/env", "sh", "-c", "ls | cat", NULL}, /* forks */
        {"/no/such/program", NULL},
        {"/usr/bin/sleep", "60", NULL},
        {"/usr/bin/yes", NULL}, /* fills its output */
        /* 234: tgkill on x86_64 */
        {"/usr/bin/perl", "-e", "syscall(234, getppid, getppid, 0) == 0 or exit 9", NULL},
        {"/usr/bin/perl", "-e", "chmod(0755, $ARGV[0]) or exit 9", EY_HELPER, NULL},
        {"/usr/bin/perl", "-MSocket", "-e", "socket(S, PF_INET, SOCK_STREAM, 0) or exit 9", NULL},
    };
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        struct sandbox_output out;
        ey_err e;
        double start = seconds_now();
        if (run_program(programs[i], "x", &out, &e)) fail_msg("%s was not refused", programs[i][0]);
        assert_true(e.code == EY_BAD_IMAGE || e.code == EY_IO);
        assert_true(seconds_now() - start < 10);
    }
}

static void a_missing_program_is_named(void **state)
{
    (void)state;
    static const char *const missing[] = {"/no/such/program", NULL};
    struct sandbox_output out;
    ey_err e;
    assert_false(run_program(missing, "x", &out, &e));
    assert_int_equal(e.code, EY_IO);
    assert_string_equal(e.text, "/no/such/program does not start: No such file or directory");
}

static bool are_over(void *over)
{
    return atomic_load((atomic_bool *)over);
}

static void *sleep_until_over(void *over)
{
    static const char *const argv[] = {"/usr/bin/sleep", "60", NULL};
    struct sandbox_output out;
    const struct sandbox_limits limits = {
        .memory = (uint64_t)1 << 30, .output = 1, .seconds = 60, .gone = are_over, .user = over};
    sandbox_run_program(&out, argv, "x", 1, &limits, NULL);
    sandbox_output_close(&out);
    return NULL;
}

/* Endless programs, as many as there may be children, leave some for images. */
static void programs_leave_children_for_images(void **state)
{
    (void)state;
    enum { PROGRAMS = 5 };
    struct sandbox_image image;
    pthread_t thread[PROGRAMS];
    atomic_bool over = false;
    ey_err e;
    if (!landlock_available()) skip();
    for (int i = 0; i < PROGRAMS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, sleep_until_over, &over), 0);
    usleep(500000);
    bool ok = decode_file(PLAIN, &ample, &image, &e);
    atomic_store(&over, true);
    for (int i = 0; i < PROGRAMS; i++)
        pthread_join(thread[i], NULL);
    if (!ok) fail_msg("%s", e.text);
    sandbox_image_close(&image);
}

struct slow_client {
    atomic_bool over;
    char address; /* its address identifies the client */
};

static void *sleep_for_client(void *client)
{
    struct slow_client *c = client;
    compute_turns_for(&c->address, NULL, NULL);
    return sleep_until_over(&c->over);
}

/* However many slow programs a client runs, other clients' programs and images do not wait. */
static void one_client_leaves_children_for_others(void **state)
{
    (void)state;
    enum { PROGRAMS = 12 };
    static const char *const sort[] = {"/usr/bin/sort", NULL};
    static const char other;
    struct slow_client slow = {.over = false};
    struct sandbox_output out;
    struct sandbox_image image;
    pthread_t thread[PROGRAMS];
    ey_err e;
    if (!landlock_available()) skip();
    for (int i = 0; i < PROGRAMS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, sleep_for_client, &slow), 0);
    usleep(500000);
    compute_turns_for(&other, NULL, NULL);
    double start = seconds_now();
    bool drawn = run_program(sort, "b\na\n", &out, &e);
    bool decoded = drawn && decode_file(PLAIN, &ample, &image, &e);
    double took = seconds_now() - start;
    compute_turns_for(NULL, NULL, NULL);
    atomic_store(&slow.over, true);
    for (int i = 0; i < PROGRAMS; i++)
        pthread_join(thread[i], NULL);
    if (!drawn || !decoded) fail_msg("%s", e.text);
    assert_true(took < 10);
    sandbox_output_close(&out);
    sandbox_image_close(&image);
}

/* ---- without child processes ---- */

static bool say_to(int fd, enum reply_status status, const char *text)
{
    uint8_t bytes[REPLY_MESSAGE_BYTES];
    struct reply_message reply = {.status = status};
    snprintf(reply.text, sizeof(reply.text), "%s", text);
    reply_message_write(bytes, &reply);
    return socket_send(fd, bytes, sizeof(bytes), NULL, 0);
}

/* Runs this program as a child whose fork() fails, or whose worker replies and never exits (HEIC).
 */
static int be_child_without_workers(void)
{
    uint8_t bytes[JOB_MESSAGE_BYTES + MAX_ARGUMENT_BYTES];
    const char *argument[MAX_PROGRAM_ARGUMENTS + 1];
    int fds[JOB_DESCRIPTORS];
    ssize_t n;
    if (!say_to(3, REPLY_READY, "")) return 1;
    while ((n = socket_receive(3, bytes, sizeof(bytes), fds, JOB_DESCRIPTORS)) > 0) {
        struct job_message job;
        if (!job_message_read(&job, argument, bytes, (size_t)n)) return 1;
        char begin;
        const bool said = job.kind == JOB_HEIC
                              ? read(fds[2], &begin, 1) == 1 && say_to(fds[2], REPLY_DAMAGED, "")
                              : say_to(3, REPLY_NO_WORKER, strerror(EAGAIN));
        if (!said) return 1;
        for (size_t i = 0; i < JOB_DESCRIPTORS; i++)
            close(fds[i]);
    }
    return 0;
}

static void a_failing_child_is_not_the_images_fault(void **state)
{
    (void)state;
    struct sandbox_image image;
    ey_err e;
    decode_with_helper("/proc/self/exe", false, &e);
    for (int i = 0; i < 2; i++) { /* the child survives a failed fork */
        assert_int_equal(e.code, EY_BUSY);
        assert_false(decode_file(PLAIN, &ample, &image, &e));
        assert_int_equal(e.code, EY_BUSY);
        assert_non_null(strstr(e.text, "cannot start a decoder now"));
    }
    assert_false(sandbox_decode(&image, SANDBOX_HEIC, "x", 1, &ample, &e));
    if (e.code != EY_BUSY || !strstr(e.text, "does not exit in 5 s"))
        fail_msg("%d: %s", e.code, e.text);
    decode_with_helper(EY_HELPER, true, &e);
}

int run_job_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_come_back),
        cmocka_unit_test(jobs_follow_one_another),
        cmocka_unit_test(damaged_input_is_named),
        cmocka_unit_test(memory_is_limited),
        cmocka_unit_test(output_is_limited),
        cmocka_unit_test(time_is_limited),
        cmocka_unit_test(gone_clients_stop_decoding),
        cmocka_unit_test(all_can_be_killed),
        cmocka_unit_test(children_have_no_descriptors_of_ours),
        cmocka_unit_test(children_die_with_their_parent),
        cmocka_unit_test(many_threads_share_few_children),
        cmocka_unit_test(a_missing_helper_is_named),
        cmocka_unit_test(programs_read_the_system_and_their_input),
        cmocka_unit_test(programs_do_nothing_else),
        cmocka_unit_test(a_missing_program_is_named),
        cmocka_unit_test(programs_leave_children_for_images),
        cmocka_unit_test(one_client_leaves_children_for_others),
        cmocka_unit_test(a_failing_child_is_not_the_images_fault),
    };
    return cmocka_run_group_tests_name("jobs", tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--decode-slowly") == 0) return decode_slowly();
    if (argc > 1 && strcmp(argv[1], "--socket") == 0) return be_child_without_workers();
    sandbox_set_helper(EY_HELPER);
    return run_message_tests() + run_filter_tests() + run_job_tests() > 0;
}
