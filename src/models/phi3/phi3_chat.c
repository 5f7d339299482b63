/* SPDX-License-Identifier: Apache-2.0 */
/* One marker a role; line feeds behind markers are in the text and not in the ids, because the
 * tokens take them in. */
#include <string.h>

#include "models/chat.h"
#include "models/phi3/phi3.h"

static const char *marker(const ey_message *message)
{
    if (chat_has_role(message, "system")) return "<|system|>";
    return chat_has_role(message, "user") ? "<|user|>" : "<|assistant|>";
}

static void write_turn(struct writing *w, const ey_message *message)
{
    if (chat_has_role(message, "system") && chat_is_empty(message)) return;
    write_special(w, marker(message));
    write_text(w, "\n");
    write_parts(w, message);
    write_special(w, "<|end|>");
    write_text(w, "\n");
}

bool phi3_prompt(struct prompt *out, const ey_request *request, ey_err *e)
{
    static const struct chat_rules rules = {0};
    *out = prompt_start();
    if (!chat_check(request, &rules, e)) return false;
    struct writing w = {.out = out, .request = request, .e = e, .ok = true};
    for (size_t i = 0; w.ok && i < request->n_messages; i++)
        write_turn(&w, &request->messages[i]);
    write_special(&w, "<|assistant|>");
    write_text(&w, "\n");
    return w.ok;
}
