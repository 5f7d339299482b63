/* SPDX-License-Identifier: Apache-2.0 */
/* The choices of one exchange: its prompts, their generations and their answers. A few run at a
 * time and the rest start as they end, so that one exchange does not fill the queue. */
#ifndef EY_SERVER_COMPLETION_CHOICES_H
#define EY_SERVER_COMPLETION_CHOICES_H

#include "server/api/common/api_request.h"
#include "server/api/common/api_usage.h"
#include "server/server_context.h"

struct choice_slot {
    int index;                 /* of the choice: answer i of prompt p is choice p · n + i */
    size_t n_prompt_tokens;    /* of its prompt */
    ey_generation *generation; /* while it runs */
    bool started, done;
    ey_answer answer; /* when it is over */
    struct metrics_watch watch;
};

struct completion_choices {
    struct server *server;
    ey_engine *engine;
    size_t model;
    bool waited_for_load; /* for the model: a full queue does not reject it now */
    struct api_request *request;
    ey_prompt **prompt; /* [n_prompts], each until its last answer was started; NULL before: of
                           inputs, which are many, as many as run */
    size_t n_prompts;
    struct choice_slot *slot; /* [n_slots] */
    size_t n_slots, n_started, n_done;
    struct api_charge answers; /* for those that are over */
    size_t next_polled;        /* which slot is polled first */
    double requested_at;       /* when the request came */
    int64_t n_prompt_tokens;   /* of all prompts */
};

/* Decodes the request's images and tokenizes its prompts, which are dropped then. Errors of the
 * request come from here. */
bool completion_choices_prepare(struct completion_choices *a, struct server *server,
                                const struct lease *lease, struct api_request *request,
                                double requested_at, struct api_error *error);
/* Starts the first of them; no more than that needs to go well. */
bool completion_choices_start(struct completion_choices *a, struct api_error *error);
/* Waits for the next event of any of them, at most timeout_ms; *slot is whose it is, NULL where
 * nothing came. After DONE slot->answer is there. False: one failed, and with it all. */
bool completion_choices_next(struct completion_choices *a, int timeout_ms,
                             struct choice_slot **slot, ey_event *event, struct api_error *error);
/* Ends what still runs and frees all; `hung_up`: because the client left. */
void completion_choices_close(struct completion_choices *a, bool hung_up);

/* What they cost together; each prompt counts once. */
void completion_choices_usage(const struct completion_choices *a, struct api_usage *out);

/* What the API says of an error of the engine about the field `param` ("": it is about none). */
bool api_fail_engine(struct api_error *error, ey_engine *engine, const char *param,
                     const ey_err *e);

#endif
