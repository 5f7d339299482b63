/* SPDX-License-Identifier: Apache-2.0 */
/* Phi-3's template: one marker per role. Line feeds after markers are in the text but not in the
 * ids, because the marker tokens absorb them. */
#include <string.h>

#include "models/chat/chat_writer.h"
#include "models/phi3/phi3.h"

static const char *marker(const ey_message *message)
{
    if (chat_has_role(message, "system")) return "<|system|>";
    return chat_has_role(message, "user") ? "<|user|>" : "<|assistant|>";
}

/* last: the message is the beginning of the answer, so its turn stays open. */
static void phi3_write_turn(struct chat_writer *w, const ey_message *message, bool last)
{
    if (chat_has_role(message, "system") && chat_is_empty(message)) return;
    chat_write_special(w, marker(message));
    chat_write_text(w, "\n");
    chat_write_parts(w, message);
    if (last) return;
    chat_write_special(w, "<|end|>");
    chat_write_text(w, "\n");
}

bool phi3_prompt(struct prompt *out, const ey_request *request, ey_err *e)
{
    static const struct chat_rules rules = {0};
    *out = prompt_start();
    if (!chat_check(request, &rules, e)) return false;
    struct chat_writer w = {.out = out, .request = request, .e = e, .ok = true};
    for (size_t i = 0; w.ok && i < request->n_messages; i++)
        phi3_write_turn(&w, &request->messages[i], chat_is_continued(request, i));
    if (request->continue_answer) return w.ok;
    chat_write_special(&w, "<|assistant|>");
    chat_write_text(&w, "\n");
    return w.ok;
}
