/* SPDX-License-Identifier: Apache-2.0 */
/* Stop texts in a stream: holds back what may become one, and says where one begins. */
#ifndef EY_ENGINE_STOP_H
#define EY_ENGINE_STOP_H

#include "base/buf.h"

struct stopper {
    const char *const *stop;
    size_t n_stop;
    struct buf
        pending; /* text not yet given away; reserved once, so that a step allocates nothing */
    bool stopped;
};

bool stopper_open(struct stopper *s, const char *const *stop, size_t n_stop, ey_err *e);
void stopper_close(struct stopper *s);
/* Adds text; returns how many bytes of s->pending may be given away now. A stop text ends there,
 * and s->stopped is set. */
size_t stopper_add(struct stopper *s, const char *text, size_t n);
/* Drops bytes that were given away. */
void stopper_take(struct stopper *s, size_t n);

/* Where the first stop text in text[n] begins; n: nowhere. */
size_t stop_find(const char *const *stop, size_t n_stop, const char *text, size_t n);

#endif
