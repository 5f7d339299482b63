/* SPDX-License-Identifier: Apache-2.0 */
/* Lines on standard error; one write each, so that those of several threads do not mix. */
#include "server/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/buf.h"
#include "base/text/json_writer.h"

enum { MAX_LOG_LINE = 16 << 10, MAX_LOGGED_BODY = 4096 };

static struct buf start_line(void)
{
    struct buf line = buf_with_max(MAX_LOG_LINE);
    time_t now = time(NULL);
    struct tm t;
    char stamp[32];
    localtime_r(&now, &t);
    strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S ", &t);
    buf_add_text(&line, stamp);
    return line;
}

static void write_line(struct buf *line)
{
    buf_add_text(line, "\n");
    if (!line->failed) fwrite(line->data, 1, line->size, stderr);
    buf_free(line);
}

void log_line(const char *fmt, ...)
{
    char text[4096];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    struct buf line = start_line();
    buf_add_text(&line, text);
    write_line(&line);
}

void log_access(const char *peer, const char *method, const char *path, int status, double seconds,
                bool whole)
{
    char milliseconds[32];
    snprintf(milliseconds, sizeof(milliseconds), seconds < 0.01 ? "%.2f" : "%.0f", 1000 * seconds);
    if (status)
        log_line("%s %.16s %s %d %s ms%s", peer, method, path, status, milliseconds,
                 whole ? "" : ", not taken to its end");
    else if (method)
        log_line("%s %.16s %s no answer, %s ms", peer, method, path, milliseconds);
    else
        log_line("%s %s malformed or cut short, %s ms", peer, path, milliseconds);
}

void log_body(const char *path, const char *body, size_t n)
{
    struct buf line = start_line();
    buf_printf(&line, "%s body of %zu bytes: ", path, n);
    json_dump_string(&line, body, n < MAX_LOGGED_BODY ? n : MAX_LOGGED_BODY);
    write_line(&line);
}
