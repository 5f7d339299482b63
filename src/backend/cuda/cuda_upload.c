/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads large data through a small ring of pinned buffers that several threads fill, so that file
 * reads, copies and GPU work overlap. The ring is small because pinned memory is scarce under
 * WSL2. */
#include <string.h>

#include "backend/cuda/cuda_context.h"

bool cuda_upload_open(struct cuda *c, ey_err *e)
{
    const struct cuda_driver *d = &c->driver;
    for (int i = 0; i < UPLOAD_BUFFERS; i++) {
        void *p = NULL;
        if (!cuda_ok(d, d->host_alloc(&p, UPLOAD_BYTES, 0), "pinned memory for uploads", e))
            return false;
        c->upload_buffer[i] = p;
        if (!cuda_ok(d, d->event_create(&c->upload_done[i], CU_EVENT_DISABLE_TIMING), "uploads", e))
            return false;
    }
    return true;
}

void cuda_upload_close(struct cuda *c)
{
    for (int i = 0; i < UPLOAD_BUFFERS; i++) {
        if (c->upload_done[i]) c->driver.event_destroy(c->upload_done[i]);
        if (c->upload_buffer[i]) c->driver.host_free(c->upload_buffer[i]);
    }
}

struct upload_copy {
    char *to;
    const char *from;
    size_t bytes, unit;
    const struct upload_viewer *viewer;
};

enum { COPY_UNIT = 256 << 10 }; /* fits in a core's cache */

static void copy_units(void *context, size_t begin, size_t end, int thread)
{
    const struct upload_copy *copy = context;
    for (size_t unit = begin; unit < end; unit++) {
        const size_t first = unit * copy->unit, left = copy->bytes - first,
                     n = left < copy->unit ? left : copy->unit;
        memcpy(copy->to + first, copy->from + first, n);
        if (copy->viewer) copy->viewer->view(copy->viewer->context, copy->from + first, n);
    }
    (void)thread;
}

/* Fills the ring's next buffer with `bytes` of `from` once its previous contents were copied;
 * returns its index. */
static int fill_upload_buffer(struct cuda *c, const void *from, size_t bytes,
                              const struct upload_viewer *viewer)
{
    const int buffer = c->next_upload_buffer;
    const size_t unit = viewer ? COPY_UNIT / viewer->block * viewer->block : COPY_UNIT;
    struct upload_copy copy = {c->upload_buffer[buffer], from, bytes, unit, viewer};
    c->next_upload_buffer = (buffer + 1) % UPLOAD_BUFFERS;
    cuda_check_call(c, c->driver.event_sync(c->upload_done[buffer]), "an upload");
    if (bytes <= unit)
        copy_units(&copy, 0, 1, 0);
    else
        pool_run(c->pool, (bytes + unit - 1) / unit, 1, copy_units, &copy);
    return buffer;
}

void cuda_upload(struct cuda *c, void *to, const void *from, size_t bytes)
{
    cuda_upload_viewed(c, to, from, bytes, NULL);
}

void cuda_upload_viewed(struct cuda *c, void *to, const void *from, size_t bytes,
                        const struct upload_viewer *viewer)
{
    cuda_add_pending(c);
    for (size_t done = 0, n; done < bytes; done += n) {
        n = bytes - done < UPLOAD_BYTES ? bytes - done : UPLOAD_BYTES;
        int buffer = fill_upload_buffer(c, (const char *)from + done, n, viewer);
        cuda_check_call(c,
                        c->driver.to_device((CUdeviceptr)(uintptr_t)to + done,
                                            c->upload_buffer[buffer], n, c->stream),
                        "an upload");
        cuda_check_call(c, c->driver.event_record(c->upload_done[buffer], c->stream), "an upload");
    }
}
