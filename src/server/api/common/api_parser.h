/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a request's JSON into struct api_request, field by field. Each dialect has a table of its
 * known fields, in the order in which they are read. */
#ifndef EY_SERVER_API_PARSER_H
#define EY_SERVER_API_PARSER_H

#include "server/api/common/answer_grammar.h"
#include "server/api/common/image_refs.h"

/* The request's settings for thinking (thinking_fields.h). */
struct api_thinking {
    ey_thinking asked, effort; /* AUTO if not given */
    int effort_budget;         /* token limit of the effort level; 0: unlimited */
    struct field_path path;    /* path of the deciding field */
    bool budget_given;
    int budget;
};

/* State that the readers of fields share, and that is used after the last field. */
struct api_parser {
    struct api_reading reading;
    json_object *json; /* the request */
    struct image_refs images;
    struct pixel_budget budget;
    struct api_tools tools;
    struct answer_format format;
    struct api_thinking thinking;
    bool logprobs; /* a field requested them; the field top_logprobs sets their number */
};

typedef bool api_field_fn(struct api_parser *p, const char *path, json_object *value);

struct api_field {
    const char *name;
    int kinds; /* bits 1 << api_dialect.kind of the routes that accept it */
    api_field_fn *read;
};

/* Reads the members that are in fields[n] and not null, in the table's order. */
bool api_read_fields(struct api_parser *p, const struct api_field *fields, size_t n);
/* Handles members that the table does not list (field_unknown()). */
bool api_note_unknown_fields(struct api_parser *p, const struct api_field *fields, size_t n);

#endif
