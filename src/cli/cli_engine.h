/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by all commands that ask a model: opens an engine as the options say, or connects to a
 * server, and sends requests to it. */
#ifndef EY_CLI_CLI_ENGINE_H
#define EY_CLI_CLI_ENGINE_H

#include <stdatomic.h>

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
    ey_engine *engine;     /* NULL before cli_engine_load, and with --server */
    struct remote *remote; /* the connection to --server, or NULL */
    char model[4096];      /* EY_MAX_PATH */
    uint64_t seed;         /* used for every answer of this run: --seed, or random */
    int loop_tokens;       /* of --loop-guard; 0 disables it */
    atomic_bool sampled;   /* an answer was sampled with the seed */
    bool ignore_eos;       /* answers continue to max_tokens */
    int max_images;        /* images of one request; 1 unless set before cli_engine_load */
    bool embeds;           /* set before cli_engine_load to choose an embedding model by default */
    bool at_once;          /* set before cli_engine_load to let the engine choose max_num_seqs */
    bool shared; /* several threads ask: no progress line, and the caller watches Ctrl-C */
};

void cli_engine_init(struct cli_engine *s, const struct options *options);
/* Loads the model or connects to the server. Later calls do nothing. */
bool cli_engine_load(struct cli_engine *s, ey_err *e);
/* Returns the seconds that loading took; 0 for a server's model. */
double cli_engine_load_seconds(const struct cli_engine *s);
/* Returns the context length in tokens; 0 if a server does not report it. */
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
/* The user pointer of the requests' event callback. */
struct answer_sink {
    struct cli_engine *cli;
    bool stream; /* print the text as it arrives */
};
/* Returns a request for `messages` with the settings that all commands share: sampling, stop texts,
 * lengths, log-probabilities and events. `messages` and `sink` must outlive it. */
ey_request cli_engine_request(struct cli_engine *s, const ey_message *messages, size_t n,
                              bool greedy, struct answer_sink *sink);

/* Returns the image as a part of a message, with the size limits of the options. Borrows its bytes.
 */
ey_part cli_engine_image_part(const struct cli_engine *s, const struct input *image);

/* Sends a request to the engine or the server. Ctrl-C and a closed standard output cancel it.
 * `format` constrains the answer unless it is NULL. The caller frees the answer, also after an
 * error. */
bool cli_engine_send(struct cli_engine *s, const ey_request *request,
                     const struct cli_response_format *format, ey_answer *answer, ey_err *e);

/* Builds a request from a question and sends it with cli_engine_send. */
bool cli_engine_ask(struct cli_engine *s, const struct question *question, ey_answer *answer,
                    ey_err *e);

#endif
