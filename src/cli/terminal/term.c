/* SPDX-License-Identifier: Apache-2.0 */
/* Writes answers to standard output and messages to standard error. */
#include "cli/terminal/term.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8.h"

struct term term_stdout(void)
{
    return (struct term){.file = stdout, .terminal = isatty(STDOUT_FILENO)};
}

bool term_is_stdout(const char *name)
{
    struct stat named, own;
    return strcmp(name, "-") == 0 || (stat(name, &named) == 0 && fstat(STDOUT_FILENO, &own) == 0 &&
                                      named.st_dev == own.st_dev && named.st_ino == own.st_ino);
}

int terminal_columns(int descriptor)
{
    struct winsize size;
    return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* Returns the length in bytes of the character at s, or 0 if it is malformed or a control
 * character. */
static size_t term_printable_length(const char *s, size_t n)
{
    uint32_t cp;
    int length = utf8_decode(s, n, &cp);
    return length > 0 && cp >= 0x20 && !(cp >= 0x7f && cp < 0xa0) ? (size_t)length : 0;
}

static void write_printable(FILE *file, const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t length = text[i] == '\n' || text[i] == '\t' ? 1
                                                           : term_printable_length(text + i, n - i);
        if (length) fwrite(text + i, 1, length, file);
        i += length ? length : utf8_decode(text + i, n - i, NULL) == 2 ? 2 : 1;
    }
}

static bool note_failure(struct term *t)
{
    t->error = errno;
    t->closed = true;
    return false;
}

static bool term_flush(struct term *t)
{
    return (fflush(t->file) == 0 && !ferror(t->file)) || note_failure(t);
}

bool term_write_raw(struct term *t, const char *bytes, size_t n)
{
    if (t->closed) return false;
    errno = 0;
    if (n) fwrite(bytes, 1, n, t->file);
    return term_flush(t);
}

bool term_write(struct term *t, const char *text, size_t n)
{
    if (!t->terminal) return term_write_raw(t, text, n);
    if (t->closed) return false;
    errno = 0;
    write_printable(t->file, text, n);
    return term_flush(t);
}

int term_finish(struct term *t, int status)
{
    errno = 0;
    if (!t->closed && (fflush(t->file) != 0 || ferror(t->file))) note_failure(t);
    if (!t->closed || t->error == EPIPE) return status;
    fprintf(stderr, "eyelet: cannot write the answer: %s\n", strerror(t->error));
    return 1;
}

void term_add_name(struct buf *out, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n;) {
        size_t length = term_printable_length(name + i, n - i);
        if (length)
            buf_add(out, name + i, length);
        else
            buf_printf(out, "\\x%02x", (unsigned char)name[i]);
        i += length ? length : 1;
    }
}

int term_complain(const ey_err *e)
{
    fprintf(stderr, "eyelet: %s\n", e->text);
    return ey_code_exit_status(e->code);
}
