/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder's sandbox: each attempt runs in a process that has confined itself. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/child/confine.h"
#include "sandbox/test_sandbox.h"

enum { REFUSED = 10, DONE = 11 };

/* Returns 0 or errno. */
typedef int attempt_fn(void);

static int result_of(long value)
{
    return value < 0 ? errno : 0;
}

static int open_file(void)
{
    return result_of(open("/etc/passwd", O_RDONLY));
}
static int create_file(void)
{
    return result_of(creat("/tmp/eyelet-test-sandbox", 0600));
}
static int run_shell(void)
{
    return result_of(execl("/bin/sh", "sh", "-c", "exit 0", (char *)NULL));
}
static int make_socket(void)
{
    return result_of(socket(AF_INET, SOCK_STREAM, 0));
}
static int make_unix_socket(void)
{
    return result_of(socket(AF_UNIX, SOCK_STREAM, 0));
}
static int make_process(void)
{
    return result_of(syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL));
}
static int make_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED
               ? errno
               : 0;
}
static int make_memory_code(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return result_of(mprotect(p, 4096, PROT_READ | PROT_EXEC));
}
static int kill_parent(void)
{
    return result_of(kill(getppid(), 0));
}
static int signal_itself(void)
{
    return result_of(tgkill(getpid(), gettid(), 0));
}
static int signal_thread_of_parent(void)
{
    return result_of(tgkill(getppid(), getppid(), 0));
}
static int trace_parent(void)
{
    return result_of(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL));
}
static int raise_limit(void)
{
    const struct rlimit more = {1 << 20, 1 << 20};
    return result_of(setrlimit(RLIMIT_NOFILE, &more));
}
static int become_dumpable(void)
{
    return result_of(prctl(PR_SET_DUMPABLE, 1));
}
static int make_memory_file(void)
{
    return result_of(memfd_create("more", 0));
}
#ifdef __x86_64__
static int make_old_call(void)
{
    return result_of(syscall(SYS_getpid | 0x40000000)); /* an x32 system call */
}
#endif
static int allocate(void)
{
    void *p = malloc(1 << 20);
    free(p);
    return p ? 0 : errno;
}
static void *thread_main(void *value)
{
    *(int *)value = 1;
    return NULL;
}
static int make_thread(void)
{
    pthread_t thread;
    int ran = 0, status = pthread_create(&thread, NULL, thread_main, &ran);
    if (status) return status;
    pthread_join(thread, NULL);
    return ran ? 0 : EIO;
}

enum expected { IS_DONE, IS_REFUSED, IS_KILLED };

static const struct {
    const char *what;
    attempt_fn *attempt;
    enum expected expected, sanitized; /* sanitizers need calls that are otherwise refused */
} attempts[] = {
    {"allocate", allocate, IS_DONE, IS_DONE},
    {"start a thread", make_thread, IS_DONE, IS_DONE},
    {"open a file", open_file, IS_REFUSED, IS_DONE},
    {"create a file", create_file, IS_REFUSED, IS_DONE},
    {"run a shell", run_shell, IS_KILLED, IS_KILLED},
    {"open a socket", make_socket, IS_KILLED, IS_KILLED},
    {"open a Unix socket", make_unix_socket, IS_KILLED, IS_KILLED},
    {"start a process", make_process, IS_REFUSED, IS_DONE},
    {"map code", make_code, IS_REFUSED, IS_DONE},
    {"turn memory into code", make_memory_code, IS_REFUSED, IS_DONE},
    {"signal its parent", kill_parent, IS_KILLED, IS_KILLED},
    {"signal itself", signal_itself, IS_DONE, IS_DONE},
    {"signal a thread of its parent", signal_thread_of_parent, IS_REFUSED, IS_DONE},
    {"trace its parent", trace_parent, IS_KILLED, IS_KILLED},
    {"raise a limit", raise_limit, IS_REFUSED, IS_DONE},
    {"become dumpable", become_dumpable, IS_REFUSED, IS_DONE},
    {"make a memory file", make_memory_file, IS_REFUSED, IS_DONE},
#ifdef __x86_64__
    {"make a call of another architecture", make_old_call, IS_KILLED, IS_KILLED},
#endif
};

static enum expected outcome_of(attempt_fn *attempt)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct worker_limits limits = {(uint64_t)1 << 32, 1 << 20, 10};
        ey_err e;
        if (!confine_child(&e) || !confine_worker(&limits, getppid(), &e) || !confine_decoder(&e))
            _exit(1);
        int error = attempt();
        _exit(error == 0 ? DONE : error == EPERM ? REFUSED : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) return IS_KILLED;
    if (!WIFEXITED(status)) fail_msg("signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) == DONE) return IS_DONE;
    if (WEXITSTATUS(status) != REFUSED) fail_msg("exit status %d", WEXITSTATUS(status));
    return IS_REFUSED;
}

static void decoders_only_compute(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
        enum expected expected = attempts[i].expected;
#ifdef EY_SANITIZED
        if (attempts[i].sanitized != expected) continue;
#endif
        enum expected is = outcome_of(attempts[i].attempt);
        if (is != expected) fail_msg("%s: %d, not %d", attempts[i].what, is, expected);
    }
}

int run_filter_tests(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(decoders_only_compute)};
    return cmocka_run_group_tests_name("filter", tests, NULL, NULL);
}
