/* SPDX-License-Identifier: Apache-2.0 */
/* What is embedded or scored, as APIs write it: texts, objects with a text and an image, lists of
 * parts, prompts that are finished. Each becomes one of the request's prompts. */
#ifndef EY_SERVER_POOLING_INPUTS_H
#define EY_SERVER_POOLING_INPUTS_H

#include "base/text/json_writer.h"
#include "server/api/common/api_parser.h"

enum { API_MAX_INPUTS = 2048 };

/* The parts of one input. */
struct pooling_parts {
    ey_part *part;
    size_t n;
    size_t first_image, n_images; /* which of the request's images it has */
    const char *instruction;      /* its own; NULL: none */
    size_t n_instruction;
    json_object *value; /* what it was read from */
};

/* Makes the request one for vectors or scores. False with an error in `chat`'s words where the
 * model answers instead. */
bool pooling_begin(struct api_parser *p, ey_task wanted, const char *chat);
/* Room for n inputs. */
bool pooling_open_prompts(struct api_parser *p, const char *name, size_t n);

/* A text, an array of parts, or an object: {text, image, instruction} or {content: parts}. */
bool pooling_read_parts(struct api_parser *p, const struct field_path *path, json_object *value,
                        struct pooling_parts *out);
/* Adds those of `more` behind its own. */
bool pooling_append_parts(struct api_parser *p, struct pooling_parts *all,
                          const struct pooling_parts *more);
/* Adds images in an array of base64 or data: URLs in front. */
bool pooling_read_images(struct api_parser *p, const char *path, json_object *value,
                         struct pooling_parts *out);
/* Adds the input as the next prompt, with a query where there is one. */
bool pooling_add_input(struct api_parser *p, const struct pooling_parts *parts,
                       const struct pooling_parts *query);
/* Adds a prompt that is finished: ids that begin as one does, or a text that does. */
bool pooling_add_ids(struct api_parser *p, const struct field_path *path, json_object *value);
bool pooling_add_finished(struct api_parser *p, const char *text, size_t n);
bool pooling_is_finished(const char *text, size_t n);

/* Fields: "instruction" of all inputs, "dimensions", "truncate_prompt_tokens". */
api_field_fn pooling_read_instruction, pooling_read_dimensions, pooling_read_truncation;
api_field_fn pooling_read_truncate_flag;
/* A boolean of which false is for vectors as the model has them. */
api_field_fn pooling_read_normalize;

/* [n] numbers, as they are. */
void pooling_write_vector(struct json_writer *w, const float *vector, size_t n);
/* Little-endian floats in base64. */
void pooling_write_base64(struct json_writer *w, const float *vector, size_t n);

#endif
