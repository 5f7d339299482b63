/* SPDX-License-Identifier: Apache-2.0 */
/* Error values: formats messages and escapes bytes that could harm a terminal or a log. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static const struct {
    int http, exit_status;
} statuses[] = {
#define EY_CODE_ROW(name, http, status) [name] = {http, status},
    EY_CODES(EY_CODE_ROW)
#undef EY_CODE_ROW
};

int ey_code_exit_status(ey_code code)
{
    return statuses[code].exit_status;
}

int ey_code_http_status(ey_code code)
{
    return statuses[code].http;
}

/* Returns the length of the character at s if it is printable, else 0. */
static int printable_length(const char *s, size_t n)
{
    uint32_t cp;
    int length = utf8_decode(s, n, &cp);
    return length > 0 && cp >= 0x20 && !(cp >= 0x7f && cp < 0xa0) ? length : 0;
}

/* Copies text to out with control characters and malformed bytes as \xNN. Truncates between
 * characters. */
static void copy_visible(char *out, size_t capacity, const char *text)
{
    size_t n = strlen(text), used = 0;
    for (size_t i = 0; i < n;) {
        int length = printable_length(text + i, n - i);
        char escaped[5];
        const char *piece = text + i;
        if (!length) {
            snprintf(escaped, sizeof(escaped), "\\x%02x", (unsigned char)text[i]);
            piece = escaped;
        }
        size_t add = length ? (size_t)length : 4;
        if (used + add + 1 > capacity) break;
        memcpy(out + used, piece, add);
        used += add;
        i += length ? (size_t)length : 1;
    }
    out[used] = 0;
}

bool ey_fail(ey_err *e, ey_code code, const char *fmt, ...)
{
    if (!e) return false;
    /* vsnprintf() may split a character at the end; copy_visible() truncates before it. */
    char raw[sizeof(e->text) + 4];
    va_list args;
    va_start(args, fmt);
    vsnprintf(raw, sizeof(raw), fmt, args);
    va_end(args);
    e->code = code;
    e->item_kind = EY_ITEM_NONE;
    e->item = 0;
    e->detail = 0;
    copy_visible(e->text, sizeof(e->text), raw);
    return false;
}

bool ey_fail_as(ey_err *e, const ey_err *why)
{
    if (e) *e = *why;
    return false;
}

bool ey_fail_memory(ey_err *e, const char *what, size_t bytes)
{
    char size[32] = "";
    if (bytes) snprintf(size, sizeof(size), " (%zu bytes)", bytes);
    return ey_fail(e, EY_NO_MEMORY,
                   "no memory for %s%s; close other programs, or use smaller images or a smaller "
                   "--max-model-len",
                   what, size);
}

/* If the message was truncated before the detail, the detail is empty. */
static void set_detail(ey_err *e, size_t at)
{
    size_t n = strlen(e->text);
    e->detail = (int)(at < n ? at : n);
}

bool ey_fail_within(ey_err *e, const char *fmt, ...)
{
    if (!e) return false;
    char raw[sizeof(e->text) + 4], prefix[sizeof(e->text)], whole[2 * sizeof(e->text) + 8];
    va_list args;
    va_start(args, fmt);
    vsnprintf(raw, sizeof(raw), fmt, args);
    va_end(args);
    copy_visible(prefix, sizeof(prefix), raw);
    snprintf(whole, sizeof(whole), "%s: %s", prefix, e->text);
    copy_visible(e->text, sizeof(e->text), whole);
    if (e->detail) set_detail(e, (size_t)e->detail + strlen(prefix) + 2);
    return false;
}

bool ey_fail_item(ey_err *e, ey_item_kind kind, size_t item, const char *name)
{
    if (!e) return false;
    e->item_kind = kind;
    e->item = (int)item;
    set_detail(e, name ? strlen(name) + 2 : 0);
    return false;
}
