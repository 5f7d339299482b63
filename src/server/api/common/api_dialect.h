/* SPDX-License-Identifier: Apache-2.0 */
/* A dialect: one API's JSON form of the internal request and answer. Each is a folder beside this
 * one, and no dialect includes another's headers.
 *
 * To add one, write src/server/api/NAME with
 *  1. a table of fields (struct api_field) and their readers: sampling_fields.h has the ones that
 *     most APIs share, image_refs.h and answer_grammar.h take images, tools and schemas;
 *  2. write_whole and write_event for the answers of api_answer.h;
 *  3. a struct api_dialect that names these, and routes that call completion_run() with it;
 *  4. entries in server/routes.c for the routes and for the error format of their paths, which
 *     http_server.c also uses for its own errors;
 *  5. rows in docs/architecture.md and in the CMakeLists.txt of server and of its tests.
 * completion.h does the common part: memory, the model, prompts, waiting, streams, disconnects. */
#ifndef EY_SERVER_API_DIALECT_H
#define EY_SERVER_API_DIALECT_H

#include "server/api/common/api_answer.h"
#include "server/api/common/api_parser.h"

struct api_dialect {
    int kind; /* defined by the dialect, to distinguish its routes */
    const char *id_prefix, *call_prefix;
    const char *json_type, *stream_type; /* Content-Type of whole answers and of streams */
    bool clips;        /* shortens an answer that does not fit the context; otherwise the request is
                          refused */
    bool keeps_answer; /* reserves part of max_tokens for the answer after a thought */
    bool lenient;      /* ignores unknown fields even on a strict server */
    bool keeps_request; /* its answer may need texts of the request (api_request.kept_bytes) */
    int more_copies;    /* extra copies of a whole answer's text and log-probabilities while it is
                           written */
    size_t state_bytes; /* size of api_reply.state */

    /* Reads all fields but the model, which is read already. The grammar is compiled and the images
     * are fetched only if this succeeds. */
    bool (*read)(struct api_parser *p);
    void (*write_whole)(struct buf *out, struct api_reply *reply, const struct api_choice *choices,
                        size_t n, const struct api_usage *usage);
    void (*write_event)(struct buf *out, struct api_reply *reply, const struct api_event *event);
    /* Writes the error for an unknown model; `names` are the served ones. NULL: as in vLLM. */
    void (*write_unknown_model)(char *out, size_t size, const char *asked, const char *names);
    void (*close_state)(void *state); /* NULL if state owns nothing */
};

#endif
