/* SPDX-License-Identifier: Apache-2.0 */
/* Reads inputs for embedding and scoring in the forms that APIs use: texts, objects with text and
 * image, lists of parts, rendered prompts. Each becomes one prompt of the request. */
#ifndef EY_SERVER_POOLING_INPUTS_H
#define EY_SERVER_POOLING_INPUTS_H

#include "base/text/json_writer.h"
#include "server/api/common/api_parser.h"

enum { API_MAX_INPUTS = 2048 };

/* The parts of one input. */
struct pooling_parts {
    ey_part *part;
    size_t n;
    size_t first_image, n_images; /* the range of its images among the request's */
    const char *instruction;      /* NULL: the request's default */
    size_t n_instruction;
    json_object *value; /* its JSON */
};

/* Makes the request a pooling request. Fails if the model cannot do the wanted task; `chat` is
 * the format of the error message, whose %s becomes the model's name. */
bool pooling_begin(struct api_parser *p, ey_task wanted, const char *chat);
/* Allocates n inputs. */
bool pooling_open_prompts(struct api_parser *p, const char *name, size_t n);

/* Reads a text, an array of parts, or an object: {text, image, instruction} or {content: parts}. */
bool pooling_read_parts(struct api_parser *p, const struct field_path *path, json_object *value,
                        struct pooling_parts *out);
/* Appends the parts of `more`. */
bool pooling_append_parts(struct api_parser *p, struct pooling_parts *all,
                          const struct pooling_parts *more);
/* Prepends the images of an array of data: URLs or bare base64. */
bool pooling_read_images(struct api_parser *p, const char *path, json_object *value,
                         struct pooling_parts *out);
/* Adds an input as the next prompt, with an optional query. Its instruction is that of the input,
 * else the query's, else the request's. */
bool pooling_add_input(struct api_parser *p, const struct pooling_parts *parts,
                       const struct pooling_parts *query);
/* Add a rendered prompt as ids or text. The ids must begin with the chat template's first token. */
bool pooling_add_ids(struct api_parser *p, const struct field_path *path, json_object *value);
bool pooling_add_finished(struct api_parser *p, const char *text, size_t n);
bool pooling_is_finished(const char *text, size_t n);

/* Fields: "instruction" for all inputs, "dimensions", "truncate_prompt_tokens". */
api_field_fn pooling_read_instruction, pooling_read_dimensions, pooling_read_truncation;
api_field_fn pooling_read_truncate_flag;
/* A boolean; false returns the model's vectors unnormalized. */
api_field_fn pooling_read_normalize;

/* Writes vector[n] as an array of numbers. */
void pooling_write_vector(struct json_writer *w, const float *vector, size_t n);
/* Writes vector[n] as base64 of little-endian floats. */
void pooling_write_base64(struct json_writer *w, const float *vector, size_t n);

#endif
