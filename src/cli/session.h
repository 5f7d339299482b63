/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands that answer share: an engine opened as the options say, or a server that has
 * one, and questions about pictures put to it. */
#ifndef EY_CLI_SESSION_H
#define EY_CLI_SESSION_H

#include "cli/form.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/term.h"

struct session {
    const struct options *options; /* borrowed */
    struct term out;
    struct progress progress;
    ey_engine *engine;     /* NULL until session_load … */
    struct remote *remote; /* … and with --server, where this is there instead */
    char model[4096];      /* EY_MAX_PATH */
    uint64_t seed;         /* of all answers of this run: as asked for, else random */
    bool sampled;          /* an answer was drawn with it */
    bool ignore_eos;       /* answers go on to their longest */
    int max_images;        /* pictures of one request; 1 unless set before session_load */
};

void session_open(struct session *s, const struct options *options);
/* Loads the model, or finds the server's, unless that was done. */
bool session_load(struct session *s, ey_err *e);
/* Facts of the loaded model: the seconds that loading took, and its context, 0 where a server does
 * not say. */
double session_load_seconds(const struct session *s);
int session_context(const struct session *s);
void session_close(struct session *s);

struct question {
    const struct input *pictures; /* in order, before the text */
    size_t n_pictures;
    const char *text;
    bool stream;             /* print the answer as it grows */
    bool greedy;             /* the likeliest tokens, whatever the model recommends */
    const struct form *form; /* that the answer keeps to; NULL: it is free */
};

/* How answers are drawn: the model's recommendation, with what the options say instead; a server is
 * left to it (NaN, top_k -1). `greedy`: the likeliest token unless the options say otherwise. Needs
 * a loaded model. */
ey_sampling session_sampling(const struct session *s, bool greedy);
/* The request's fields that every command sets alike: sampling, stop texts, lengths,
 * log-probabilities, events. `listener` must outlive the request. */
struct listener {
    struct session *session;
    bool stream;
};
ey_request session_request(struct session *s, const ey_message *messages, size_t n, bool greedy,
                           struct listener *listener);

/* A picture as a part of a message, at the size that the options say; borrows its bytes. */
ey_part session_picture(const struct session *s, const struct input *picture);

/* Puts a request to the engine or the server; Ctrl-C and a reader that went away cancel it. `form`
 * is the question's. */
bool session_put(struct session *s, const ey_request *request, const struct form *form,
                 ey_answer *answer, ey_err *e);

/* Puts one question; Ctrl-C and a reader that went away cancel it. The answer is the caller's, also
 * after an error. */
bool session_ask(struct session *s, const struct question *question, ey_answer *answer, ey_err *e);

#endif
