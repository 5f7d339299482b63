/* SPDX-License-Identifier: Apache-2.0 */
/* A lock-free table of maps: a signal handler must not take a lock. */
#include "base/mapped_files.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILES = 4096, SHOWN_PATH_BYTES = 1024 };

/* A slot is free while `begin` is 0. `begin` is stored last, when the other members are valid. */
struct mapped_file {
    _Atomic uintptr_t begin;
    size_t size;
    char path[SHOWN_PATH_BYTES]; /* a copy, because another thread's SIGBUS handler may read it
                                    after the file is unmapped */
};

static struct mapped_file files[MAX_FILES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* serializes writers */

void mapped_files_add(const void *data, size_t size, const char *path)
{
    struct mapped_file *slot = NULL;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < MAX_FILES && !slot; i++)
        if (!files[i].begin) slot = &files[i];
    if (slot) {
        slot->size = size;
        snprintf(slot->path, sizeof(slot->path), "%s", path);
        slot->begin = (uintptr_t)data;
    }
    pthread_mutex_unlock(&lock);
}

void mapped_files_remove(const void *data)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < MAX_FILES; i++) {
        if (!data || files[i].begin != (uintptr_t)data) continue;
        files[i].begin = 0;
        break;
    }
    pthread_mutex_unlock(&lock);
}

const char *mapped_files_find(const void *address)
{
    for (size_t i = 0; i < MAX_FILES; i++) {
        uintptr_t begin = files[i].begin;
        if (begin && (uintptr_t)address >= begin && (uintptr_t)address - begin < files[i].size)
            return files[i].path;
    }
    return NULL;
}

/* ---- SIGBUS ---- */

static size_t append_text(char *out, size_t used, size_t size, const char *text)
{
    while (*text && used < size)
        out[used++] = *text++;
    return used;
}

/* Writes nothing if standard error would block, because the process must end. */
static void say_lost(const char *path)
{
    static const char before[] = "eyelet: ",
                      after[] = ": the file was cut off or its disk failed while it was in use; "
                                "replace models by renaming, not in place\n";
    char line[4096];
    struct pollfd writable = {.fd = STDERR_FILENO, .events = POLLOUT};
    size_t n = append_text(line, 0, sizeof(line), before);
    n = append_text(line, n, sizeof(line) - sizeof(after), path);
    n = append_text(line, n, sizeof(line), after);
    if (poll(&writable, 1, 0) == 1) (void)!write(STDERR_FILENO, line, n);
}

static void on_sigbus(int number, siginfo_t *info, void *context)
{
    (void)context;
    const char *path = info->si_code > 0 ? mapped_files_find(info->si_addr) : NULL;
    if (path) {
        say_lost(path);
        _exit(MAPPED_FILE_LOST_STATUS);
    }
    signal(number, SIG_DFL); /* the retried access raises it again, with the default effect */
    if (info->si_code <= 0) raise(number);
}

void mapped_files_watch(void)
{
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}
