/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are wrong in every way that is known, and what may come of each. */
#ifndef EY_TESTS_LOAD_MALFORMED_REQUESTS_H
#define EY_TESTS_LOAD_MALFORMED_REQUESTS_H

#include "client/samples.h"
#include "client/wire.h"

/* What may come of it. */
enum {
    MAY_BE_ANSWERED = 1, /* 200, or 503 when too many wait: it may be right after all */
    MAY_BE_REFUSED = 2,  /* any 4xx, or 505 for another version of HTTP */
    MAY_BE_UNKNOWN = 4,  /* 501 */
    MAY_BE_CUT = 8,      /* the connection ends without a reply */
};

struct malformed {
    const char *name;
    unsigned may;
    struct buf bytes;
    enum {
        THEN_READ,       /* the reply; the connection can be used again */
        THEN_READ_LAST,  /* the reply, and hang up */
        THEN_READ_TWO,   /* 200, and then one that may be as `may` says */
        THEN_HALF_CLOSE, /* say that no more comes, then read */
        THEN_LEAVE,      /* hang up, after leave_after seconds */
    } then;
    double leave_after;
};

/* An image that some kinds damage. */
struct sample {
    char *png, *jpeg;
    size_t n_png, n_jpeg;
};
bool sample_read(struct sample *out, ey_err *e);
void sample_free(struct sample *s);

size_t malformed_kinds(void);
/* Of kind `kind`; m->bytes is filled anew. */
void malformed_make(struct malformed *m, size_t kind, const struct wire_target *to,
                    const struct sample *sample, struct rng *dice);

#endif
