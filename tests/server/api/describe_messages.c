/* SPDX-License-Identifier: Apache-2.0 */
#include "describe_messages.h"

void describe_messages(struct buf *out, const ey_request *request)
{
    for (size_t i = 0; i < request->n_messages; i++) {
        const ey_message *m = &request->messages[i];
        buf_printf(out, "%s:", m->role);
        if (m->n_thought) buf_printf(out, " (%.*s)", (int)m->n_thought, m->thought);
        for (size_t k = 0; k < m->n_parts; k++)
            if (m->parts[k].type == EY_PART_IMAGE)
                buf_printf(out, " image(%zu)", m->parts[k].n_bytes);
            else
                buf_printf(out, " '%.*s'", (int)m->parts[k].n_bytes,
                           (const char *)m->parts[k].bytes);
        for (size_t k = 0; k < m->n_tool_calls; k++)
            buf_printf(out, " %s(%s)", m->tool_calls[k].name, m->tool_calls[k].arguments);
        buf_add_text(out, "; ");
    }
}
