/* SPDX-License-Identifier: Apache-2.0 */
/* Stop texts in a stream. */
#include "engine/stop.h"

#include <string.h>

#include "base/limits.h"

bool stopper_open(struct stopper *s, const char *const *stop, size_t n_stop, ey_err *e)
{
    *s = (struct stopper){stop, n_stop, buf_with_max(8 * EY_MAX_TOKEN_BYTES), false};
    if (n_stop > EY_MAX_STOPS)
        return ey_fail(e, EY_BAD_REQUEST, "%zu stop texts; at most %d are possible", n_stop,
                       EY_MAX_STOPS);
    for (size_t i = 0; i < n_stop; i++) {
        size_t n = stop[i] ? strlen(stop[i]) : 0;
        if (!n || n > EY_MAX_STOP_BYTES)
            return ey_fail(e, EY_BAD_REQUEST, "stop text %zu has %zu bytes; it must have 1 to %d",
                           i + 1, n, EY_MAX_STOP_BYTES);
    }
    return buf_reserve(&s->pending, 4 * EY_MAX_TOKEN_BYTES + EY_MAX_STOP_BYTES) ||
           ey_fail_memory(e, "stop texts", 8 * EY_MAX_TOKEN_BYTES);
}

void stopper_close(struct stopper *s)
{
    buf_free(&s->pending);
}

size_t stop_find(const char *const *stop, size_t n_stop, const char *text, size_t n)
{
    size_t first = n;
    for (size_t i = 0; i < n_stop; i++) {
        const char *at = n ? memmem(text, n, stop[i], strlen(stop[i])) : NULL;
        if (at && (size_t)(at - text) < first) first = (size_t)(at - text);
    }
    return first;
}

/* Length of the longest end of text[n] that begins `stop`. */
static size_t begun(const char *stop, const char *text, size_t n)
{
    size_t length = strlen(stop);
    for (size_t k = n < length - 1 ? n : length - 1; k; k--)
        if (memcmp(text + n - k, stop, k) == 0) return k;
    return 0;
}

size_t stopper_add(struct stopper *s, const char *text, size_t n)
{
    size_t held = 0;
    buf_add(&s->pending, text, n);
    size_t at = stop_find(s->stop, s->n_stop, s->pending.data, s->pending.size);
    s->stopped = at < s->pending.size;
    for (size_t i = 0; !s->stopped && i < s->n_stop; i++) {
        size_t k = begun(s->stop[i], s->pending.data, s->pending.size);
        held = k > held ? k : held;
    }
    return at - held;
}

void stopper_take(struct stopper *s, size_t n)
{
    memmove(s->pending.data, s->pending.data + n, s->pending.size - n + 1);
    s->pending.size -= n;
}
