/* SPDX-License-Identifier: Apache-2.0 */
/* Stop texts in a stream: holds back what may become one, and says where one begins. */
#ifndef EY_ENGINE_STOP_H
#define EY_ENGINE_STOP_H

#include "base/buf.h"

struct stop_matcher {
    const char *const *stop;
    size_t n_stop;
    struct buf
        held_back; /* text not yet given away; reserved once, so that a step allocates nothing */
    bool stopped;
};

bool stop_matcher_open(struct stop_matcher *s, const char *const *stop, size_t n_stop, ey_err *e);
void stop_matcher_close(struct stop_matcher *s);
/* Adds text; returns how many bytes of s->pending may be given away now. A stop text ends there,
 * and s->stopped is set. */
size_t stop_matcher_add(struct stop_matcher *s, const char *text, size_t n);
/* Drops bytes that were given away. */
void stop_matcher_drop(struct stop_matcher *s, size_t n);

/* Where the first stop text in text[n] begins; n: nowhere. */
size_t stop_string_find(const char *const *stop, size_t n_stop, const char *text, size_t n);

#endif
