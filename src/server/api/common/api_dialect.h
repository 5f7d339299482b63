/* SPDX-License-Identifier: Apache-2.0 */
/* A dialect: one API's way of writing the internal request and answer. It is a folder beside this
 * one, and no dialect includes another's headers.
 *
 * To add one, write src/server/api/NAME with
 *   1. a table of fields (struct api_field) and its readers: sampling_fields.h has those that most
 *      APIs share, image_refs.h and answer_grammar.h what images, tools and schemas become;
 *   2. write_whole and write_event, of what api_answer.h says;
 *   3. a struct api_dialect that names these, and routes that call completion_run with it;
 *   4. the routes in server/routes.c, and there too the form of the errors of these paths, which
 *      the door's refusals take as well;
 *   5. rows in docs/architecture.md and in the CMakeLists.txt of server and of its tests.
 * completion.h then does what is alike: memory, the model, prompts, waiting, streams, hang-ups. */
#ifndef EY_SERVER_API_DIALECT_H
#define EY_SERVER_API_DIALECT_H

#include "server/api/common/api_answer.h"
#include "server/api/common/api_parser.h"

struct api_dialect {
    int kind; /* the folder's own number, where several of its routes differ */
    const char *id_prefix, *call_prefix;
    const char *json_type, *stream_type; /* Content-Type of whole answers and of streams */
    bool clips; /* an answer that the context does not hold is cut short; else it is refused */
    bool keeps_answer;  /* of a limited length some is kept for what follows a thought */
    bool lenient;       /* unknown fields are passed over also where the server is strict */
    bool keeps_request; /* its texts may lie in memory until the answer's end (kept_bytes) */
    int more_copies;    /* of a whole answer's text and log-probabilities, while it is written */
    size_t state_bytes; /* of api_reply.state */

    /* Reads all fields but the model, which is read already. The grammar and the images are made
     * when this has gone well. */
    bool (*read)(struct api_parser *p);
    void (*write_whole)(struct buf *out, struct api_reply *reply, const struct api_choice *choices,
                        size_t n, const struct api_usage *usage);
    void (*write_event)(struct buf *out, struct api_reply *reply, const struct api_event *event);
    /* What is said of a model that is not there, where `names` are; NULL: as in vLLM. */
    void (*write_unknown_model)(char *out, size_t size, const char *asked, const char *names);
    void (*close_state)(void *state); /* NULL: it holds nothing */
};

#endif
