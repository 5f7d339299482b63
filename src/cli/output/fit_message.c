/* SPDX-License-Identifier: Apache-2.0 */
/* Describes in words whether a plan fits. */
#include "cli/output/fit_message.h"

#include <string.h>

#define MIB (1024.0 * 1024.0)

void add_fit_message(struct buf *out, const ey_plan *p)
{
    if (p->fits)
        buf_add_text(out, "fits");
    else if (p->total_bytes <= p->budget_bytes)
        buf_add_text(out, "does not fit: layers on the CPU take more than --cpu-memory");
    else
        buf_printf(out, "does not fit, %.1f MiB too many",
                   (double)(p->total_bytes - p->budget_bytes) / MIB);
    buf_printf(out, "; usable memory: %s\n", p->budget_rule);
    if (!p->on_gpu && p->fits && p->total_bytes + p->file_bytes > p->budget_bytes)
        buf_add_text(out, "but then memory cannot hold all weights: some would be read from the "
                          "disk for every token\n");
}
