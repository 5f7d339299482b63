/* SPDX-License-Identifier: Apache-2.0 */
/* Finds stop strings in streamed text and holds back text that may become one. */
#ifndef EY_ENGINE_REQUEST_STOP_STRINGS_H
#define EY_ENGINE_REQUEST_STOP_STRINGS_H

#include "base/buf.h"

struct stop_matcher {
    const char *const *stop;
    size_t n_stop;
    struct buf
        held_back; /* text not yet published; reserved once, so that a step allocates nothing */
    bool stopped;
};

bool stop_matcher_open(struct stop_matcher *s, const char *const *stop, size_t n_stop, ey_err *e);
void stop_matcher_close(struct stop_matcher *s);
/* Adds text. Returns how many bytes of s->held_back may be published now. If a stop string was
 * found, they end before it, and s->stopped is set. */
size_t stop_matcher_add(struct stop_matcher *s, const char *text, size_t n);
/* Drops n bytes that were published. */
void stop_matcher_drop(struct stop_matcher *s, size_t n);

/* Returns the offset of the first stop string in text[n], or n if there is none. */
size_t stop_string_find(const char *const *stop, size_t n_stop, const char *text, size_t n);

#endif
