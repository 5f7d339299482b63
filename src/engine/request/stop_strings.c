/* SPDX-License-Identifier: Apache-2.0 */
/* Finds stop strings in streamed text. */
#include "engine/request/stop_strings.h"

#include <string.h>

#include "base/limits.h"

bool stop_matcher_open(struct stop_matcher *s, const char *const *stop, size_t n_stop, ey_err *e)
{
    *s = (struct stop_matcher){stop, n_stop, buf_with_max(8 * EY_MAX_TOKEN_BYTES), false};
    if (n_stop > EY_MAX_STOP_STRINGS)
        return ey_fail(e, EY_BAD_REQUEST, "%zu stop texts; at most %d are possible", n_stop,
                       EY_MAX_STOP_STRINGS);
    for (size_t i = 0; i < n_stop; i++) {
        size_t n = stop[i] ? strlen(stop[i]) : 0;
        if (!n || n > EY_MAX_STOP_BYTES)
            return ey_fail(e, EY_BAD_REQUEST, "stop text %zu has %zu bytes; it must have 1 to %d",
                           i + 1, n, EY_MAX_STOP_BYTES);
    }
    return buf_reserve(&s->held_back, 4 * EY_MAX_TOKEN_BYTES + EY_MAX_STOP_BYTES) ||
           ey_fail_memory(e, "stop texts", 8 * EY_MAX_TOKEN_BYTES);
}

void stop_matcher_close(struct stop_matcher *s)
{
    buf_free(&s->held_back);
}

size_t stop_string_find(const char *const *stop, size_t n_stop, const char *text, size_t n)
{
    size_t first = n;
    for (size_t i = 0; i < n_stop; i++) {
        const char *at = n ? memmem(text, n, stop[i], strlen(stop[i])) : NULL;
        if (at && (size_t)(at - text) < first) first = (size_t)(at - text);
    }
    return first;
}

/* Returns the length of the longest suffix of text[n] that is a prefix of `stop`. */
static size_t partial_match_length(const char *stop, const char *text, size_t n)
{
    size_t length = strlen(stop);
    for (size_t k = n < length - 1 ? n : length - 1; k; k--)
        if (memcmp(text + n - k, stop, k) == 0) return k;
    return 0;
}

size_t stop_matcher_add(struct stop_matcher *s, const char *text, size_t n)
{
    size_t held = 0;
    buf_add(&s->held_back, text, n);
    size_t at = stop_string_find(s->stop, s->n_stop, s->held_back.data, s->held_back.size);
    s->stopped = at < s->held_back.size;
    for (size_t i = 0; !s->stopped && i < s->n_stop; i++) {
        size_t k = partial_match_length(s->stop[i], s->held_back.data, s->held_back.size);
        held = k > held ? k : held;
    }
    return at - held;
}

void stop_matcher_drop(struct stop_matcher *s, size_t n)
{
    memmove(s->held_back.data, s->held_back.data + n, s->held_back.size - n + 1);
    s->held_back.size -= n;
}
