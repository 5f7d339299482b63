/* SPDX-License-Identifier: Apache-2.0 */
/* Starts, watches and stops a server. */
#include "client/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { LOG_HEAD = 16 << 10, LOG_TAIL = 8 << 10 };
static const char ready_line[] = "eyelet ready on ";

static void sleep_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static void run(const struct child *c, const char *const *argv, pid_t parent)
{
    int nothing = open("/dev/null", O_RDONLY);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* ends with its parent */
    if (getppid() != parent) _exit(127);
    dup2(nothing, 0);
    dup2(c->log, 1);
    dup2(c->log, 2);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    dprintf(2, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static bool find_url(struct child *c)
{
    static char text[LOG_HEAD + 1];
    ssize_t n = pread(c->log, text, LOG_HEAD, 0);
    text[n > 0 ? n : 0] = 0;
    const char *at = strstr(text, ready_line);
    return at && strchr(at, '\n') && sscanf(at + strlen(ready_line), "%63[^ \n]", c->url) == 1;
}

bool child_start(struct child *c, const char *const *argv, double seconds, ey_err *e)
{
    double until = seconds_now() + seconds;
    pid_t parent = getpid();
    *c = (struct child){.log = memfd_create("server log", MFD_CLOEXEC)};
    if (c->log < 0) return ey_fail(e, EY_IO, "no file for the server's log: %s", strerror(errno));
    fcntl(c->log, F_SETFL, O_APPEND);
    c->pid = fork();
    if (c->pid == 0) run(c, argv, parent);
    if (c->pid < 0) return ey_fail(e, EY_IO, "fork: %s", strerror(errno));
    while (!find_url(c)) {
        if (!child_is_alive(c)) return ey_fail(e, EY_IO, "%s ended before it was ready", argv[0]);
        if (seconds_now() > until)
            return ey_fail(e, EY_IO, "%s was not ready after %.0f s", argv[0], seconds);
        sleep_ms(5);
    }
    return true;
}

bool child_is_alive(struct child *c)
{
    siginfo_t info = {.si_pid = 0};
    return c->pid > 0 && waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
}

int child_stop(struct child *c, double seconds)
{
    int status = 0;
    bool killed = false;
    if (c->pid <= 0) return -1;
    double until = seconds_now() + seconds;
    kill(c->pid, SIGTERM);
    while (child_is_alive(c) && !killed) {
        if (seconds_now() > until) {
            kill(c->pid, SIGKILL);
            killed = true;
        } else
            sleep_ms(10);
    }
    waitpid(c->pid, &status, 0);
    c->pid = 0;
    return !killed && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct child_memory child_memory(const struct child *c)
{
    char path[64], line[256];
    struct child_memory m = {.resident = -1};
    long kib;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)c->pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "VmRSS: %ld kB", &kib) == 1) m.resident = (int64_t)kib << 10;
        if (sscanf(line, "RssAnon: %ld kB", &kib) == 1) m.anonymous = (int64_t)kib << 10;
        if (sscanf(line, "VmHWM: %ld kB", &kib) == 1) m.peak = (int64_t)kib << 10;
    }
    if (f) fclose(f);
    return m;
}

void child_print_log(const struct child *c)
{
    static char text[LOG_TAIL];
    off_t size = lseek(c->log, 0, SEEK_END), from = size > LOG_TAIL ? size - LOG_TAIL : 0;
    ssize_t n = pread(c->log, text, sizeof(text), from);
    fprintf(stderr, "---- the server's log%s ----\n%.*s\n", from ? ", its end" : "",
            n > 0 ? (int)n : 0, text);
}
