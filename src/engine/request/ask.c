/* SPDX-License-Identifier: Apache-2.0 */
/* One request from messages to answer, for a caller who waits for it. */
#include "engine/request/generation.h"

#include "engine/engine_internal.h"

enum {
    EVENT_TIMEOUT_MS = 100
}; /* how often a caller is asked whether to go on while nothing happens */

/* Hears the answer to its end, or cancels it. */
static void forward_events(ey_generation *gen, const ey_request *request)
{
    ey_event event;
    for (;;) {
        ey_generation_next(gen, EVENT_TIMEOUT_MS, &event);
        if (event.type == EY_EVENT_DONE) return;
        if (event.type == EY_EVENT_NONE) event.type = EY_EVENT_PHASE; /* the same phase still */
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
