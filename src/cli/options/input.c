/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what the command line names. */
#include "cli/options/input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/utf8.h"

static bool read_stdin(struct input *in, size_t max, ey_err *e)
{
    struct buf all = buf_with_max(max);
    char block[65536];
    ssize_t got;
    bool ok = buf_add(&all, "", 0);
    while (ok && (got = read(STDIN_FILENO, block, sizeof(block))) != 0) {
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            buf_free(&all);
            return ey_fail(e, EY_IO, "standard input: %s", strerror(errno));
        }
        ok = buf_add(&all, block, (size_t)got);
    }
    if (!ok)
        return ey_fail(e, EY_IO, "standard input: larger than the limit of %zu bytes, or no memory",
                       max);
    in->bytes = all.data;
    in->size = all.size;
    return true;
}

bool input_read(struct input *in, const char *name, size_t max, ey_err *e)
{
    *in = (struct input){.name = name};
    if (strcmp(name, "-") == 0) return read_stdin(in, max, e);
    return file_read(&in->bytes, &in->size, name, max, e);
}

void input_free(struct input *in)
{
    free(in->bytes);
    *in = (struct input){0};
}

bool input_check_images(char *const *names, size_t n, const char *command, ey_err *e)
{
    size_t n_stdin = 0;
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(names[i]);
        while (length > 1 && names[i][length - 1] == '/')
            length--;
        n_stdin += strcmp(names[i], "-") == 0;
        if (path_is_directory(names[i]))
            return ey_fail(e, EY_BAD_REQUEST,
                           "%s is a directory; name the images in it: eyelet %s %.*s/*", names[i],
                           command, (int)length, names[i]);
    }
    if (n_stdin > 1) return ey_fail(e, EY_BAD_REQUEST, "- (standard input) can be one image only");
    return true;
}

bool input_check_text(const char *text, size_t n, const char *what, ey_err *e)
{
    if (utf8_valid(text, n)) return true;
    return ey_fail(e, EY_BAD_REQUEST,
                   "%s is not UTF-8; convert it, for example with iconv -t UTF-8", what);
}
