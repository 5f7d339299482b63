/* SPDX-License-Identifier: Apache-2.0 */
/* Everything large that goes to the card: through a small ring of pinned memory, filled by several
 * threads, so that reading a file, copying and what the card does with it overlap. Pinned memory is
 * scarce under WSL2, hence small. */
#include <string.h>

#include "backend/cuda/cuda.h"

bool cuda_upload_open(struct cuda *c, ey_err *e)
{
    const struct cuda_driver *d = &c->driver;
    for (int i = 0; i < UPLOAD_PLACES; i++) {
        void *p = NULL;
        if (!cuda_ok(d, d->host_alloc(&p, UPLOAD_BYTES, 0), "pinned memory for uploads", e))
            return false;
        c->pinned[i] = p;
        if (!cuda_ok(d, d->event_create(&c->pinned_free[i], CU_EVENT_DISABLE_TIMING), "uploads", e))
            return false;
    }
    return true;
}

void cuda_upload_close(struct cuda *c)
{
    for (int i = 0; i < UPLOAD_PLACES; i++) {
        if (c->pinned_free[i]) c->driver.event_destroy(c->pinned_free[i]);
        if (c->pinned[i]) c->driver.host_free(c->pinned[i]);
    }
    if (c->staging_own) c->driver.memory_free((CUdeviceptr)(uintptr_t)c->staging);
}

struct copy {
    char *to;
    const char *from;
    size_t bytes;
};

enum { COPY_UNIT = 256 << 10 };

static void copy_units(void *context, size_t begin, size_t end, int thread)
{
    const struct copy *copy = context;
    size_t first = begin * COPY_UNIT,
           last = end * COPY_UNIT < copy->bytes ? end * COPY_UNIT : copy->bytes;
    (void)thread;
    memcpy(copy->to + first, copy->from + first, last - first);
}

/* A place of the ring with `bytes` of `from` in it, when its last contents have left it. */
static int fill_place(struct cuda *c, const void *from, size_t bytes)
{
    int place = c->next_pinned;
    struct copy copy = {c->pinned[place], from, bytes};
    c->next_pinned = (place + 1) % UPLOAD_PLACES;
    cuda_check(c, c->driver.event_sync(c->pinned_free[place]), "an upload");
    if (bytes <= COPY_UNIT)
        memcpy(copy.to, from, bytes);
    else
        pool_run(c->pool, (bytes + COPY_UNIT - 1) / COPY_UNIT, 1, copy_units, &copy);
    return place;
}

void cuda_upload(struct cuda *c, void *to, const void *from, size_t bytes)
{
    for (size_t done = 0, n; done < bytes; done += n) {
        n = bytes - done < UPLOAD_BYTES ? bytes - done : UPLOAD_BYTES;
        int place = fill_place(c, (const char *)from + done, n);
        cuda_check(
            c,
            c->driver.to_device((CUdeviceptr)(uintptr_t)to + done, c->pinned[place], n, c->stream),
            "an upload");
        cuda_check(c, c->driver.event_record(c->pinned_free[place], c->stream), "an upload");
    }
}
