/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines on standard error through a queue, so that logging never blocks on the reader. */
#include "server/log.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/text/json_writer.h"
#include "server/log_queue.h"

#define FINAL_LINES_SECONDS 1.0
enum {
    MAX_LOGGED_LINE = 32 << 10,
    MAX_LOGGED_BODY = 4096,
    STAMP_BYTES = 32,
    QUEUE_BYTES = 256 << 10
};

static struct log_queue *queue; /* NULL: callers write their lines themselves */
static char log_path[PATH_MAX]; /* path of the file that standard error is, or "" */

/* Remembers the file that a shell opened by 2>>FILE, to reopen it after a rotation. */
static void remember_log_path(void)
{
    struct stat st;
    ssize_t n = -1;
    if (fstat(STDERR_FILENO, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink)
        n = readlink("/proc/self/fd/2", log_path, sizeof(log_path) - 1);
    log_path[n > 0 ? n : 0] = 0;
}

void log_start(void)
{
    remember_log_path();
    queue = log_queue_open(STDERR_FILENO, QUEUE_BYTES);
}

void log_stop(void)
{
    if (!queue || log_queue_close(queue, FINAL_LINES_SECONDS)) {
        queue = NULL;
        return;
    }
    queue = NULL;
    /* Nobody reads the log: later lines must not block either. */
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
}

bool log_reopen(void)
{
    if (!log_path[0]) return false;
    int fd = open(log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return false;
    dup2(fd, STDERR_FILENO);
    close(fd);
    return true;
}

static void put_stamp(char out[STAMP_BYTES])
{
    time_t now = time(NULL);
    struct tm t;
    localtime_r(&now, &t);
    strftime(out, STAMP_BYTES, "%Y-%m-%d %H:%M:%S ", &t);
}

static void write_bytes(const char *line, size_t n)
{
    if (queue)
        log_queue_add(queue, line, n);
    else
        (void)!file_write(STDERR_FILENO, line, n);
}

/* Allocates nothing, so that no line is lost when memory is exhausted. */
void log_line(const char *fmt, ...)
{
    char line[4096];
    put_stamp(line);
    const size_t n_stamp = strlen(line), room = sizeof(line) - n_stamp - 1; /* 1: for the \n */
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(line + n_stamp, room, fmt, args);
    va_end(args);
    size_t end = n_stamp + (n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1);
    line[end++] = '\n';
    write_bytes(line, end);
}

void log_access(const char *peer, const char *method, const char *path, int status, double seconds,
                bool whole)
{
    char milliseconds[32];
    snprintf(milliseconds, sizeof(milliseconds), seconds < 0.01 ? "%.2f" : "%.0f", 1000 * seconds);
    if (status)
        log_line("%s %.16s %s %d %s ms%s", peer, method, path, status, milliseconds,
                 whole ? "" : ", not received to its end");
    else if (method)
        log_line("%s %.16s %s no answer, %s ms", peer, method, path, milliseconds);
    else
        log_line("%s %s malformed or cut short, %s ms", peer, path, milliseconds);
}

void log_body(const char *path, const char *body, size_t n)
{
    struct buf line = buf_with_max(MAX_LOGGED_LINE);
    char stamp[STAMP_BYTES];
    put_stamp(stamp);
    buf_printf(&line, "%s%s body of %zu bytes: ", stamp, path, n);
    json_dump_string(&line, body, n < MAX_LOGGED_BODY ? n : MAX_LOGGED_BODY);
    buf_add_text(&line, "\n");
    if (!line.failed) write_bytes(line.data, line.size);
    buf_free(&line);
}
