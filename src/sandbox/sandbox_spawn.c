/* SPDX-License-Identifier: Apache-2.0 */
/* Finds eyelet-decode, starts it with one socket as its only open file, and kills it. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/limits.h"
#include "sandbox/sandbox_child.h"
#include "sandbox/sandbox_message.h"
#include "sandbox/sandbox_socket.h"

#define HELPER_NAME "eyelet-decode"

enum { START_MS = 10000, CHILD_SOCKET = 3, MAX_ENVIRONMENT = 32 };

extern char **environ;

/* ---- path ---- */

static char helper_path[EY_MAX_PATH]; /* set by tests; "": search for the helper */

void sandbox_set_helper(const char *path)
{
    snprintf(helper_path, sizeof(helper_path), "%s", path ? path : "");
}

/* Looks in the folder of `program` and in ../libexec/eyelet, relative to it. Debian's libraries are
 * one folder deeper, hence ../../libexec/eyelet. */
static bool helper_near(char *out, const char *program)
{
    static const char *const places[] = {"", "../libexec/eyelet/", "../../libexec/eyelet/"};
    const char *slash = strrchr(program, '/');
    if (program[0] != '/') return false;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        int n = snprintf(out, EY_MAX_PATH, "%.*s/%s" HELPER_NAME, (int)(slash - program), program,
                         places[i]);
        if (n < EY_MAX_PATH && access(out, X_OK) == 0) return true;
    }
    return false;
}

/* Looks near the running program, then near the shared library that contains this code. */
static bool find_helper(char *out, ey_err *e)
{
    char program[EY_MAX_PATH] = "";
    Dl_info module;
    if (helper_path[0]) {
        memcpy(out, helper_path, sizeof(helper_path));
        if (access(out, X_OK) == 0) return true;
    } else {
        ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
        if (n > 0 && helper_near(out, program)) return true;
        if (dladdr(helper_path, &module) && module.dli_fname && helper_near(out, module.dli_fname))
            return true;
    }
    return ey_fail(e, EY_IO,
                   "the program " HELPER_NAME " is missing; install eyelet again (the "
                   "program must be beside eyelet or in ../libexec/eyelet)");
}

/* ---- start ---- */

/* Whether the helper gets this environment variable. It gets only the variables of the loader,
 * libheif and sanitizers, because others may hold secrets such as API keys. */
static bool is_for_helper(const char *variable)
{
    static const char *const names[] = {
        "LD_", "LIBHEIF_", "ASAN_OPTIONS=", "UBSAN_OPTIONS=", "TSAN_OPTIONS=", "LSAN_OPTIONS="};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0) return true;
    return false;
}

static void helper_environment(char *out[MAX_ENVIRONMENT + 1])
{
    /* a worker begins without memory; huge pages reduce its page faults to a hundredth */
    static char huge_pages[] = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1";
    size_t n = 0;
    out[n++] = huge_pages;
    for (char **variable = environ; variable && *variable && n < MAX_ENVIRONMENT; variable++)
        if (is_for_helper(*variable)) out[n++] = *variable;
    out[n] = NULL;
}

/* The helper inherits none of the server's descriptors; 0 to 2 are /dev/null. */
static int add_file_actions(posix_spawn_file_actions_t *actions, int socket)
{
    int status = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    if (!status) status = posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0);
#ifndef EY_SANITIZED /* sanitizers report on standard error */
    if (!status) status = posix_spawn_file_actions_addopen(actions, 2, "/dev/null", O_WRONLY, 0);
#endif
    if (!status) status = posix_spawn_file_actions_adddup2(actions, socket, CHILD_SOCKET);
    if (!status) status = posix_spawn_file_actions_addclosefrom_np(actions, CHILD_SOCKET + 1);
    return status;
}

/* Resets the helper's signals and gives it its own process group, so that Ctrl-C in the server's
 * terminal does not reach it. */
static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int status = posix_spawnattr_setsigmask(attributes, &none);
    if (!status) status = posix_spawnattr_setsigdefault(attributes, &all);
    if (!status) status = posix_spawnattr_setpgroup(attributes, 0);
    if (!status)
        status = posix_spawnattr_setflags(
            attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    return status;
}

static int spawn_helper(pid_t *pid, const char *path, int socket)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char *environment[MAX_ENVIRONMENT + 1];
    char *const argv[] = {HELPER_NAME, "--socket", NULL};
    helper_environment(environment);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    int status = add_file_actions(&actions, socket);
    if (!status) status = set_attributes(&attributes);
    if (!status) status = posix_spawn(pid, path, &actions, &attributes, argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return status;
}

/* Makes a socket pair with descriptors above CHILD_SOCKET, because dup2() of the helper's end to
 * CHILD_SOCKET closes any descriptor that has that number. */
static bool make_socket_pair(int ends[2])
{
    int low[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, low) != 0) return false;
    for (int i = 0; i < 2; i++) {
        ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, CHILD_SOCKET + 1);
        close(low[i]);
    }
    if (ends[0] >= 0 && ends[1] >= 0) return true;
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0) close(ends[i]);
    return false;
}

static bool child_is_ready(const struct sandbox_child *child, ey_err *e)
{
    struct pollfd poll_for = {.fd = child->socket, .events = POLLIN};
    uint8_t bytes[REPLY_MESSAGE_BYTES];
    struct reply_message reply = {.text = "it exited immediately"};
    int ready;
    do
        ready = poll(&poll_for, 1, START_MS);
    while (ready < 0 && errno == EINTR);
    if (ready == 0) return ey_fail(e, EY_IO, HELPER_NAME " did not start within 10 s");
    ssize_t n = socket_receive(child->socket, bytes, sizeof(bytes), NULL, 0);
    if (n > 0 && reply_message_read(&reply, bytes, (size_t)n) && reply.status == REPLY_READY)
        return true;
    return ey_fail(e, EY_IO, HELPER_NAME " cannot work here: %s", reply.text);
}

struct sandbox_child *sandbox_child_start(ey_err *e)
{
    char path[EY_MAX_PATH];
    int ends[2];
    if (!find_helper(path, e)) return NULL;
    struct sandbox_child *child = calloc(1, sizeof(*child));
    if (!child || !make_socket_pair(ends)) {
        ey_fail(e, EY_NO_MEMORY, "no memory or descriptors for a decoder: %s", strerror(errno));
        free(child);
        return NULL;
    }
    child->socket = ends[0];
    int status = spawn_helper(&child->pid, path, ends[1]);
    close(ends[1]);
    if (status) {
        ey_fail(e, EY_NO_MEMORY, "%s does not start: %s", path, strerror(status));
        close(child->socket);
        free(child);
        return NULL;
    }
    if (child_is_ready(child, e)) return child;
    sandbox_child_end(child);
    return NULL;
}

void sandbox_child_end(struct sandbox_child *child)
{
    kill(-child->pid, SIGKILL);
    kill(child->pid, SIGKILL); /* the child may not lead its process group yet */
    while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    /* if this is process 1 of a container, the worker is now our child */
    while (waitpid(-child->pid, NULL, 0) > 0 || errno == EINTR)
        continue;
    close(child->socket);
    free(child);
}
