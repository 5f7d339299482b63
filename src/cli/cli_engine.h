/* SPDX-License-Identifier: Apache-2.0 */
/* The commands' common way to ask: opens an engine by the options, or connects to a server, and
 * puts questions about images to it. */
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
    ey_engine *engine;     /* NULL until cli_engine_load, and with --server */
    struct remote *remote; /* the server of --server, or NULL */
    char model[4096];      /* EY_MAX_PATH */
    uint64_t seed;         /* of all answers of this run: --seed, or random */
    int loop_tokens;       /* of --loop-guard; 0 is off */
    bool sampled;          /* an answer was sampled with the seed */
    bool ignore_eos;       /* answers continue to max_tokens */
    int max_images;        /* images of one request; 1 unless set before cli_engine_load */
    bool embeds;           /* set before cli_engine_load to get a model that embeds */
    bool at_once; /* set before cli_engine_load to run as many sequences as suit the device */
    bool shared;  /* several threads ask, so there is no progress line and the caller watches Ctrl-C
                   */
};

void cli_engine_init(struct cli_engine *s, const struct options *options);
/* Loads the model, or connects to the server, unless that is done. */
bool cli_engine_load(struct cli_engine *s, ey_err *e);
/* Properties of the loaded model: the seconds that loading took, and its context length, 0 if a
 * server does not say. */
double cli_engine_load_seconds(const struct cli_engine *s);
int cli_engine_context_length(const struct cli_engine *s);
void cli_engine_close(struct cli_engine *s);

struct question {
    const struct input *images; /* in order, before the text */
    size_t n_images;
    const char *text;
    bool stream; /* print the answer while it is generated */
    bool greedy; /* take the most likely tokens, whatever the model recommends */
    const struct cli_response_format *format; /* of the answer; NULL if it is unconstrained */
};

/* Returns the sampling parameters: the model's recommendation, or the most likely token if
 * `greedy`, overridden by the options. Values that a server decides are NaN, and -1 for top_k.
 * Needs a loaded model. */
ey_sampling cli_engine_sampling(const struct cli_engine *s, bool greedy);
/* What an answer's events are shown by. */
struct answer_sink {
    struct cli_engine *cli;
    bool stream; /* print the text as it arrives */
};
/* Sets the request's fields that are the same in every command: sampling, stop texts, lengths,
 * log-probabilities and events. `sink` must outlive the request. */
ey_request cli_engine_request(struct cli_engine *s, const ey_message *messages, size_t n,
                              bool greedy, struct answer_sink *sink);

/* Returns the image as a part of a message, with the size limits of the options. Borrows its bytes.
 */
ey_part cli_engine_image_part(const struct cli_engine *s, const struct input *image);

/* Sends a request to the engine or the server. Ctrl-C and a closed standard output cancel it.
 * `format` is the question's. */
bool cli_engine_send(struct cli_engine *s, const ey_request *request,
                     const struct cli_response_format *format, ey_answer *answer, ey_err *e);

/* Asks one question. Ctrl-C and a closed standard output cancel it. The caller frees the answer,
 * also after an error. */
bool cli_engine_ask(struct cli_engine *s, const struct question *question, ey_answer *answer,
                    ey_err *e);

#endif
