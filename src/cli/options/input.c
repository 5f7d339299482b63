/* SPDX-License-Identifier: Apache-2.0 */
/* Reads files, URLs and standard input. */
#include "cli/options/input.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "media/media.h"
#include "base/utf8.h"

/* Reads the rest of standard input; first[n_first] are bytes that were read before. */
static bool read_stdin(struct input *in, const char *first, size_t n_first, size_t max, ey_err *e)
{
    struct buf all = buf_with_max(max);
    char block[65536];
    ssize_t got;
    bool ok = buf_add(&all, first, n_first);
    while (ok && (got = read(STDIN_FILENO, block, sizeof(block))) != 0) {
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            buf_free(&all);
            return ey_fail(e, EY_IO, "standard input: %s", strerror(errno));
        }
        ok = buf_add(&all, block, (size_t)got);
    }
    if (!ok)
        return ey_fail(
            e, EY_IO, "standard input is larger than %zu bytes, the limit, or memory ran out", max);
    in->bytes = all.data;
    in->size = all.size;
    return true;
}

/* ---- standard input without "-" ---- */

static char standard_input[] = "-";
char *const input_from_stdin[1] = {standard_input};

bool input_stdin_is_sent(void)
{
    struct stat st;
    return fstat(STDIN_FILENO, &st) == 0 && (S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode));
}

static bool begins_as_image(const char *bytes, size_t n)
{
    return (n >= 3 && memcmp(bytes, "\xff\xd8\xff", 3) == 0) ||
           (n >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0) ||
           (n >= 6 && memcmp(bytes, "GIF8", 4) == 0) ||
           (n >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0) ||
           (n >= 12 && memcmp(bytes + 4, "ftyp", 4) == 0) ||
           (n >= 8 && (memcmp(bytes, "II*\0", 4) == 0 || memcmp(bytes, "MM\0*", 4) == 0)) ||
           (n >= 12 && memcmp(bytes, "BM", 2) == 0 && memcmp(bytes + 6, "\0\0\0\0", 4) == 0) ||
           (n >= 8 && memcmp(bytes, "%PDF-", 5) == 0) ||
           (n >= 3 && bytes[0] == 'P' && memchr("456", bytes[1], 3) && memchr(" \n", bytes[2], 2));
}

enum { FIRST_BYTES = 16 }; /* enough to recognize an image */

/* Reads the first bytes of standard input, which a pipe may deliver in pieces. Returns their
 * number. Sets *late if SENT_SECONDS passed before enough bytes or the end of the pipe came. */
static size_t read_first_bytes(char first[FIRST_BYTES], bool *late)
{
    const double end = seconds_now() + SENT_SECONDS;
    struct pollfd ready = {.fd = STDIN_FILENO, .events = POLLIN};
    size_t n = 0;
    *late = false;
    while (n < FIRST_BYTES) {
        const double left = end - seconds_now();
        int got = poll(&ready, 1, left > 0 ? (int)(left * 1000) + 1 : 0);
        if (got < 0 && errno == EINTR) continue;
        *late = got == 0;
        if (got <= 0) break;
        ssize_t bytes = read(STDIN_FILENO, first + n, FIRST_BYTES - n);
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes <= 0) break;
        n += (size_t)bytes;
    }
    return n;
}

bool input_read_sent_image(struct input *in, enum sent_input *sent, size_t max, ey_err *e)
{
    char first[FIRST_BYTES];
    bool late;
    *in = (struct input){.name = "-"};
    *sent = SENT_NOTHING;
    if (!input_stdin_is_sent()) return true;
    size_t n = read_first_bytes(first, &late);
    if (begins_as_image(first, n)) {
        *sent = SENT_IMAGE;
        return read_stdin(in, first, n, max, e);
    }
    if (n) lseek(STDIN_FILENO, -(off_t)n, SEEK_CUR);
    *sent = n ? SENT_OTHER : late ? SENT_LATE : SENT_NOTHING;
    return true;
}

/* ---- named inputs ---- */

static bool is_web_address(const char *name)
{
    return strncasecmp(name, "http://", 7) == 0 || strncasecmp(name, "https://", 8) == 0;
}

static bool fetch(struct input *in, const char *url, size_t max, ey_err *e)
{
    const struct media_policy policy = {.any_domain = true, .max_bytes = max};
    struct media media = {0};
    if (!media_get(&media, url, strlen(url), &policy, e))
        return ey_fail_within(e,
                              "%.200s (if the server is in your own network, pipe the image in: "
                              "curl -s URL | eyelet …)",
                              url);
    in->bytes = media.bytes;
    in->size = media.n_bytes;
    return true;
}

/* Converts "C:\\x\\y" to "/mnt/c/x/y" in out[EY_MAX_PATH]. Returns false if the name is not such a
 * path, or if there is no such file. */
static bool wsl_path(char *out, const char *name)
{
    struct stat st;
    if (!isalpha((unsigned char)name[0]) || name[1] != ':' || !strchr("\\/", name[2]) || !name[2])
        return false;
    int n = snprintf(out, EY_MAX_PATH, "/mnt/%c%s", tolower((unsigned char)name[0]), name + 2);
    if (n < 0 || n >= EY_MAX_PATH) return false;
    for (char *at = out; *at; at++)
        if (*at == '\\') *at = '/';
    return stat(name, &st) != 0 && stat(out, &st) == 0;
}

bool input_read(struct input *in, const char *name, size_t max, ey_err *e)
{
    char path[EY_MAX_PATH];
    *in = (struct input){.name = name};
    if (strcmp(name, "-") == 0) return read_stdin(in, "", 0, max, e);
    if (is_web_address(name)) return fetch(in, name, max, e);
    return file_read(&in->bytes, &in->size, wsl_path(path, name) ? path : name, max, e);
}

void input_free(struct input *in)
{
    free(in->bytes);
    free(in->own_name);
    *in = (struct input){0};
}

bool input_check_images(char *const *names, size_t n, const char *command, ey_err *e)
{
    size_t n_stdin = 0;
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(names[i]);
        if (!length) return ey_fail(e, EY_BAD_REQUEST, "the name of an image is empty");
        while (length > 1 && names[i][length - 1] == '/')
            length--;
        n_stdin += strcmp(names[i], "-") == 0;
        if (path_is_directory(names[i]))
            return ey_fail(e, EY_BAD_REQUEST,
                           "%s is a directory; name the images in it: eyelet %s %.*s/*", names[i],
                           command, (int)length, names[i]);
    }
    if (n_stdin > 1) return ey_fail(e, EY_BAD_REQUEST, "- (standard input) can be named only once");
    return true;
}

bool input_check_text(const char *text, size_t n, const char *what, ey_err *e)
{
    if (utf8_valid(text, n)) return true;
    return ey_fail(e, EY_BAD_REQUEST,
                   "%s is not UTF-8; convert it, for example with iconv -t UTF-8", what);
}

static bool is_bare_word(const char *name)
{
    return name[0] && !strpbrk(name, "./\\-") && access(name, F_OK) != 0;
}

bool input_check_quotes(char *const *args, size_t n, const char *command, ey_err *e)
{
    struct buf call = buf_with_max(EY_MAX_PATH);
    size_t first = 0;
    while (first + 1 < n && !is_bare_word(args[first]))
        first++;
    if (first + 1 >= n) return true;
    for (size_t i = 0; i < n; i++)
        buf_printf(&call, " %s%s", i == first ? "\"" : "", args[i]);
    ey_fail(e, EY_BAD_REQUEST,
            "there is no file \"%s\"; put several words in quotation marks: eyelet %s%s\"",
            args[first], command, call.failed ? " photo.jpg \"What is this?" : call.data);
    buf_free(&call);
    return false;
}
