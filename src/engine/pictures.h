/* The pictures of a request: decoded, scaled to the budget, ready to be cut in patches. */
#ifndef EY_ENGINE_PICTURES_H
#define EY_ENGINE_PICTURES_H

#include "engine/engine_internal.h"

struct picture {
    struct image pixels; /* at the size that the model sees */
    int rows, cols;      /* patches */
    int tokens;          /* rows/merge · cols/merge */
};

struct pictures {
    struct picture *item; /* [n], in order of appearance */
    size_t n;
};

/* Decodes and scales every picture of the request; each original is let go before the next is read. Fills usage[n]
 * (from `arena`). */
bool pictures_open(struct pictures *out, ey_image_usage **usage, struct arena *arena, const ey_engine *engine,
                   const ey_request *request, ey_err *e);
void pictures_close(struct pictures *pictures);

#endif
