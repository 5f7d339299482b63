/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/decode_allocations.h"

#include "base/allocations.h"

bool decode_allocations_hear(void *user, const ey_event *event)
{
    struct decode_allocations *d = user;
    if (event->type != EY_EVENT_TEXT) return true;
    if (!d->n_texts++) allocations_start(d->ignored);
    d->n = allocations_so_far();
    return true;
}
