/* SPDX-License-Identifier: Apache-2.0 */
/* The choices of one exchange: prompts, generations and answers. A few run at a time and the others
 * start as these end, so that one exchange does not fill the queue. */
#ifndef EY_SERVER_COMPLETION_CHOICES_H
#define EY_SERVER_COMPLETION_CHOICES_H

#include "server/api/common/api_request.h"
#include "server/api/common/api_usage.h"
#include "server/server_context.h"

struct choice_slot {
    int index;                 /* answer i of prompt p is choice p · n + i */
    size_t n_prompt_tokens;    /* tokens of its prompt */
    ey_generation *generation; /* set while it runs */
    bool started, done;
    ey_answer answer; /* set when it is done */
    struct metrics_watch watch;
};

struct completion_choices {
    struct server *server;
    ey_engine *engine;
    size_t model;
    bool waited_for_load; /* the request waited for the model, so a full queue does not reject it */
    struct api_request *request;
    ey_prompt **prompt; /* [n_prompts], each freed when its last answer is started. Pooling inputs,
                           which are many, are NULL until they are started */
    size_t n_prompts;
    struct choice_slot *slot; /* [n_slots] */
    size_t n_slots, n_started, n_done;
    struct api_charge answers; /* charge of finished answers */
    size_t next_polled;        /* slot to poll first */
    double requested_at;       /* arrival time of the request */
    int64_t n_prompt_tokens;   /* over all prompts */
};

/* Decodes the request's images and tokenizes its prompts, then drops both. Fails if one is invalid.
 * Pooling inputs are kept, and prepared when they start. */
bool completion_choices_prepare(struct completion_choices *a, struct server *server,
                                const struct lease *lease, struct api_request *request,
                                double requested_at, struct api_error *error);
/* Starts the first choices. Fails if the queue is full, unless the request waited for the model. */
bool completion_choices_start(struct completion_choices *a, struct api_error *error);
/* Waits up to timeout_ms for the next event. *slot is its choice, or NULL after a timeout. After
 * DONE, slot->answer is set. If a choice fails, all fail. */
bool completion_choices_next(struct completion_choices *a, int timeout_ms,
                             struct choice_slot **slot, ey_event *event, struct api_error *error);
/* Cancels running choices and frees everything. `hung_up`: the client disconnected. */
void completion_choices_close(struct completion_choices *a, bool hung_up);

/* Total token usage; each prompt counts once. */
void completion_choices_usage(const struct completion_choices *a, struct api_usage *out);

/* Converts an error of the engine to an error of the API about the field `param` ("": no field). */
bool api_fail_engine(struct api_error *error, ey_engine *engine, const char *param,
                     const ey_err *e);

#endif
