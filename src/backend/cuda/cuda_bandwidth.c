/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the read bandwidth of this process's GPU memory. Under the Windows driver model a
 * successful allocation proves nothing: the system may keep parts of it in host memory, now or
 * later, and reads of those cross the bus. */
#include "backend/cuda/cuda_context.h"
#include "kernels/cuda/loading/roofline_launch.h"

/* Creates the timer at the first measurement, which is during loading; later ones allocate
 * nothing. */
static bool open_read_timer(struct cuda *c, ey_err *e)
{
    for (int i = 0; i < 2; i++)
        if (!c->read_timer[i] &&
            !cuda_ok(&c->driver, c->driver.event_create(&c->read_timer[i], CU_EVENT_DEFAULT),
                     "timing", e))
            return false;
    return true;
}

void cuda_read_timer_close(struct cuda *c)
{
    for (int i = 0; i < 2; i++)
        if (c->read_timer[i]) c->driver.event_destroy(c->read_timer[i]);
}

size_t cuda_arena_bytes(const struct backend *be)
{
    return ((const struct cuda *)be)->arena_size;
}

/* Returns a word for the result of a read, in scratch whose contents do not matter. Before the
 * scratch exists, the whole arena is unused. */
static void *unused_word(const struct cuda *c)
{
    return c->scratch_memory ? c->scratch[SCRATCH_TOPK_PART] : c->arena;
}

bool cuda_time_read(struct backend *be, size_t first, size_t bytes, double *seconds, ey_err *e)
{
    struct cuda *c = cuda_of(be);
    const struct cuda_driver *d = &c->driver;
    const struct read_memory_args a = {c->arena + first, unused_word(c), (int64_t)(bytes / 16 * 16),
                                       1};
    struct launch l = read_memory_launch(c->sm_count);
    float ms = 0;
    if (!c->arena || first > c->arena_size || bytes > c->arena_size - first)
        return ey_fail(e, EY_INTERNAL, "the GPU has no memory to read");
    if (c->error.code != EY_OK)
        return ey_fail_as(e, &c->error); /* from attach(), or from a step that also reports it */
    if (!open_read_timer(c, e) ||
        !cuda_ok(d, d->event_record(c->read_timer[0], c->stream), "timing", e))
        return false;
    cuda_launch(c, &l, &a);
    bool ok = cuda_ok(d, d->event_record(c->read_timer[1], c->stream), "timing", e) &&
              cuda_ok(d, d->event_sync(c->read_timer[1]), "reading its memory", e) &&
              cuda_ok(d, d->event_seconds(&ms, c->read_timer[0], c->read_timer[1]), "timing", e);
    *seconds = ms > 0 ? ms * 1e-3 : 1e-9;
    return ok;
}

/* GPU memory makes two transfers per clock. */
double cuda_rated_bandwidth(const struct cuda *c)
{
    int khz = 0, bits = 0;
    if (c->driver.device_attribute(&khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, c->device) !=
            CUDA_SUCCESS ||
        c->driver.device_attribute(&bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, c->device) !=
            CUDA_SUCCESS)
        return 0;
    return 2e3 * khz * bits / 8;
}
