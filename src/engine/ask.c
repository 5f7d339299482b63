/* SPDX-License-Identifier: Apache-2.0 */
/* One request from messages to answer, for a caller who waits for it. */
#include "engine/ticket.h"

enum { STEP_MS = 100 }; /* how often a caller is asked whether to go on while nothing happens */

/* Hears the answer to its end, or cancels it. */
static void listen(ey_ticket *ticket, const ey_request *request)
{
    ey_event event;
    for (;;) {
        ey_next(ticket, STEP_MS, &event);
        if (event.type == EY_EVENT_DONE) return;
        if (event.type == EY_EVENT_NONE) event.type = EY_EVENT_PHASE; /* the same phase still */
        if (request->on_event && !request->on_event(request->event_user, &event)) break;
    }
    ey_cancel(ticket);
}

bool ey_ask(ey_engine *engine, const ey_request *request, ey_answer *answer, ey_err *e)
{
    ey_prompt *prompt = NULL;
    ey_ticket *ticket = NULL;
    *answer = (ey_answer){0};
    bool ok = ey_prepare(engine, request, &prompt, e) &&
              ey_start(engine, prompt, request, &ticket, e);
    ey_prompt_free(&prompt);
    if (!ok) return false;
    listen(ticket, request);
    return ey_collect(&ticket, answer, e);
}
