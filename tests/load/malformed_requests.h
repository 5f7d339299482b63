/* SPDX-License-Identifier: Apache-2.0 */
/* Malformed requests of every known kind, and their allowed outcomes. */
#ifndef EY_TESTS_LOAD_MALFORMED_REQUESTS_H
#define EY_TESTS_LOAD_MALFORMED_REQUESTS_H

#include "client/samples.h"
#include "client/wire.h"

/* The allowed outcomes. */
enum {
    MAY_BE_ANSWERED = 1, /* 200, or 503 when busy: the request may be valid after all */
    MAY_BE_REFUSED = 2,  /* any 4xx, or 505 for another version of HTTP */
    MAY_BE_UNKNOWN = 4,  /* 501 */
    MAY_BE_CUT = 8,      /* the connection ends without a reply */
};

struct malformed {
    const char *name;
    unsigned may;
    struct buf bytes;
    enum {
        THEN_READ,       /* read the reply; the connection can be used again */
        THEN_READ_LAST,  /* read the reply and disconnect */
        THEN_READ_TWO,   /* read a 200 and a second reply, to which `may` applies */
        THEN_HALF_CLOSE, /* shut down sending, then read */
        THEN_LEAVE,      /* disconnect after leave_after seconds */
    } then;
    double leave_after;
};

/* The images that some kinds damage. */
struct sample {
    char *png, *jpeg;
    size_t n_png, n_jpeg;
};
bool sample_read(struct sample *out, ey_err *e);
void sample_free(struct sample *s);

size_t malformed_kinds(void);
/* Makes a request of this kind and replaces m->bytes. */
void malformed_make(struct malformed *m, size_t kind, const struct wire_target *to,
                    const struct sample *sample, struct rng *dice);

#endif
