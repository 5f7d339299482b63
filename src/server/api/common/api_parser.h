/* SPDX-License-Identifier: Apache-2.0 */
/* A request's JSON → struct api_request, field by field. A dialect has a table of all fields that
 * it knows, in the order in which they are read. */
#ifndef EY_SERVER_API_PARSER_H
#define EY_SERVER_API_PARSER_H

#include "server/api/common/answer_grammar.h"
#include "server/api/common/image_refs.h"

/* What they say of thoughts (thinking_fields.h). */
struct api_thinking {
    ey_thinking asked, effort; /* AUTO: nothing is said */
    int effort_budget;         /* tokens that the word stands for; 0: no limit */
    struct field_path path;    /* of what asked */
    bool budget_given;
    int budget;
};

/* What the fields leave for the end, or for one another. */
struct api_parser {
    struct api_reading reading;
    json_object *json; /* the request's object */
    struct image_refs images;
    struct pixel_budget budget;
    struct api_tools tools;
    struct answer_format format;
    struct api_thinking thinking;
    bool logprobs; /* they were asked for, by a field of their own */
};

typedef bool api_field_fn(struct api_parser *p, const char *path, json_object *value);

struct api_field {
    const char *name;
    int kinds; /* bits 1 << api_dialect.kind of the routes that have it */
    api_field_fn *read;
};

/* Reads the fields of fields[n] that are there and not null, in the table's order. */
bool api_read_fields(struct api_parser *p, const struct api_field *fields, size_t n);
/* What the table does not name is unknown (field_unknown). */
bool api_note_unknown_fields(struct api_parser *p, const struct api_field *fields, size_t n);

#endif
