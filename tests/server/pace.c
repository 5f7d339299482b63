/* SPDX-License-Identifier: Apache-2.0 */
#include "server/pace.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "engine/swap_ops.h"

static atomic_int *shared_ms;
static const struct backend_ops *real;
static struct compute_ops paced_compute;
static struct backend_ops paced;

void pace_share(void)
{
    if (shared_ms) return;
    const int how = MAP_SHARED | MAP_ANONYMOUS;
    shared_ms = mmap(NULL, sizeof(*shared_ms), PROT_READ | PROT_WRITE, how, -1, 0);
    if (shared_ms == MAP_FAILED) abort();
}

void pace_set(int ms_a_step)
{
    pace_share();
    atomic_store(shared_ms, ms_a_step);
}

int pace_slow(void **state)
{
    (void)state;
    pace_set(SLOW_MS);
    return 0;
}

int pace_fast(void **state)
{
    (void)state;
    pace_set(0);
    return 0;
}

/* ---- in the server's process ---- */

/* The first operation of a text model step. */
static void embed(struct backend *be, dev x, const struct placed *table, dev features,
                  const struct step *step)
{
    int ms = atomic_load(shared_ms);
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};
    if (ms) nanosleep(&pause, NULL);
    real->compute->embed(be, x, table, features, step);
}

bool __real_ey_engine_open(ey_engine **out, const ey_engine_options *options, ey_err *e);
bool __wrap_ey_engine_open(ey_engine **out, const ey_engine_options *options, ey_err *e);

/* All engines of these tests share a backend, so one table is enough. It is set before the engine
 * runs. */
bool __wrap_ey_engine_open(ey_engine **out, const ey_engine_options *options, ey_err *e)
{
    if (!__real_ey_engine_open(out, options, e)) return false;
    if (!real) {
        real = (*out)->devices.be->ops;
        paced = *real;
        paced_compute = *real->compute;
        paced_compute.embed = embed;
        paced.compute = &paced_compute;
    }
    swap_ops(*out, &paced);
    return true;
}
