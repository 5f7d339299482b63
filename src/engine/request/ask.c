/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one request to its answer for a caller that waits for it. */
#include "engine/request/generation.h"

#include "engine/engine_internal.h"

enum { EVENT_TIMEOUT_MS = 100 }; /* interval of on_event calls while nothing happens */

/* Forwards events to the caller until the answer ends; cancels it if the caller wants to stop. */
static void forward_events(ey_generation *gen, const ey_request *request)
{
    ey_event event;
    for (;;) {
        ey_generation_next(gen, EVENT_TIMEOUT_MS, &event);
        if (event.type == EY_EVENT_DONE) return;
        if (event.type == EY_EVENT_NONE)
            event.type = EY_EVENT_PHASE; /* no new event: repeat the phase */
        if (request->on_event && !request->on_event(request->event_user, &event)) break;
    }
    ey_generation_cancel(gen);
}

bool ey_ask(ey_engine *engine, const ey_request *given, ey_answer *answer, ey_err *e)
{
    ey_request own;
    const ey_request *request = &own;
    ey_prompt *prompt = NULL;
    ey_generation *gen = NULL;
    *answer = (ey_answer){0};
    bool ok = request_read(&own, given, e) && ey_prompt_prepare(engine, request, &prompt, e) &&
              ey_generation_start(engine, prompt, request, &gen, e);
    ey_prompt_free(&prompt);
    if (!ok) return false;
    forward_events(gen, request);
    return ey_generation_collect(&gen, answer, e);
}
