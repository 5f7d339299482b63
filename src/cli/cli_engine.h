/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands that answer share: an engine opened as the options say, or a server that has
 * one, and questions about images put to it. */
#ifndef EY_CLI_SESSION_H
#define EY_CLI_SESSION_H

#include "cli/options/response_format.h"
#include "cli/options/input.h"
#include "cli/options/options.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/term.h"
#include "eyelet/request.h"

struct cli_engine {
    const struct options *options; /* borrowed */
    struct term out;
    struct progress_line progress;
    ey_engine *engine;     /* NULL until cli_engine_load … */
    struct remote *remote; /* … and with --server, where this is there instead */
    char model[4096];      /* EY_MAX_PATH */
    uint64_t seed;         /* of all answers of this run: --seed, else random */
    int loop_tokens;       /* of --loop-guard; 0: off */
    bool sampled;          /* an answer was drawn with it */
    bool ignore_eos;       /* answers go on to their longest */
    int max_images;        /* images of one request; 1 unless set before cli_engine_load */
    bool embeds;           /* set before cli_engine_load: a model that does is wanted */
    bool at_once;          /* set before cli_engine_load: as many sequences as the device likes */
    bool shared;           /* several threads ask: no progress line, Ctrl-C is watched outside */
};

void cli_engine_init(struct cli_engine *s, const struct options *options);
/* Loads the model, or finds the server's, unless that was done. */
bool cli_engine_load(struct cli_engine *s, ey_err *e);
/* Facts of the loaded model: the seconds that loading took, and its context, 0 where a server does
 * not say. */
double cli_engine_load_seconds(const struct cli_engine *s);
int cli_engine_context_length(const struct cli_engine *s);
void cli_engine_close(struct cli_engine *s);

struct question {
    const struct input *images; /* in order, before the text */
    size_t n_images;
    const char *text;
    bool stream; /* print the answer as it grows */
    bool greedy; /* the likeliest tokens, whatever the model recommends */
    const struct cli_response_format *format; /* that the answer keeps to; NULL: it is free */
};

/* How answers are drawn: the model's recommendation, with what the options say instead; a server is
 * left to it (NaN, top_k -1). `greedy`: the likeliest token unless the options say otherwise. Needs
 * a loaded model. */
ey_sampling cli_engine_sampling(const struct cli_engine *s, bool greedy);
/* The request's fields that every command sets alike: sampling, stop texts, lengths,
 * log-probabilities, events. `listener` must outlive the request. */
struct answer_sink {
    struct cli_engine *cli;
    bool stream;
};
ey_request cli_engine_request(struct cli_engine *s, const ey_message *messages, size_t n,
                              bool greedy, struct answer_sink *sink);

/* An image as a part of a message, at the size that the options say; borrows its bytes. */
ey_part cli_engine_image_part(const struct cli_engine *s, const struct input *image);

/* Puts a request to the engine or the server; Ctrl-C and a reader that went away cancel it.
 * `format` is the question's. */
bool cli_engine_send(struct cli_engine *s, const ey_request *request,
                     const struct cli_response_format *format, ey_answer *answer, ey_err *e);

/* Puts one question; Ctrl-C and a reader that went away cancel it. The answer is the caller's, also
 * after an error. */
bool cli_engine_ask(struct cli_engine *s, const struct question *question, ey_answer *answer,
                    ey_err *e);

#endif
