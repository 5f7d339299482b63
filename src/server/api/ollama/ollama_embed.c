/* SPDX-License-Identifier: Apache-2.0 */
/* /api/embed, and the older /api/embeddings, which takes one prompt and returns one vector. */
#include "base/clock.h"
#include "base/limits.h"
#include "base/text/json_writer.h"
#include "server/api/common/pooling_inputs.h"
#include "server/api/common/sampling_fields.h"
#include "server/api/ollama/ollama_dialect.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- requests ---- */

static bool read_embed_truncate(struct api_parser *p, const char *path, json_object *value)
{
    return field_bool(&p->reading, path, value, &p->reading.out->request.truncate);
}

enum { EMBED = 1 << OLLAMA_EMBED, OLD = 1 << OLLAMA_EMBEDDINGS, EITHER = EMBED | OLD };

/* Input and images are read after the table's fields; the route reads `keep_alive`. */
static const struct api_field fields[] = {
    {"model", EITHER, accept_field},
    {"name", EITHER, accept_field},
    {"instruction", EITHER, pooling_read_instruction},
    {"truncate", EMBED, read_embed_truncate},
    {"dimensions", EMBED, pooling_read_dimensions},
    {"mm_processor_kwargs", EITHER, read_mm_processor},
    {"options", EITHER, accept_field},
    {"keep_alive", EITHER, accept_field},
    {"input", EMBED, accept_field},
    {"images", EITHER, accept_field},
    {"prompt", OLD, accept_field},
};

static bool read_embed_text(struct api_parser *p, const struct field_path *path, json_object *value)
{
    struct pooling_parts parts;
    if (!json_object_is_type(value, json_type_string))
        return api_fail(p->reading.error, path->text, "invalid input type");
    return pooling_read_parts(p, path, value, &parts) && pooling_add_input(p, &parts, NULL);
}

/* Returns the name of the input field: a string constant, because the request keeps the pointer. */
static const char *input_field(const struct api_parser *p)
{
    return p->reading.out->kind == OLLAMA_EMBEDDINGS ? "prompt" : "input";
}

/* Reads one input: its images and an optional text. */
static bool read_embed_images(struct api_parser *p, const struct field_path *path,
                              json_object *value, json_object *images)
{
    struct pooling_parts parts = {0};
    if (value && !json_object_is_type(value, json_type_string))
        return api_fail(p->reading.error, path->text,
                        "images can only be given with one text, not with a list");
    return pooling_open_prompts(p, input_field(p), 1) &&
           (field_is_neutral(value) || pooling_read_parts(p, path, value, &parts)) &&
           pooling_read_images(p, "images", images, &parts) && pooling_add_input(p, &parts, NULL);
}

static bool read_embed_list(struct api_parser *p, const struct field_path *path, json_object *value)
{
    size_t n;
    if (!field_array(&p->reading, path->text, value, 0, API_MAX_INPUTS, &n) ||
        !pooling_open_prompts(p, "input", n))
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct field_path item = field_item(path, i);
        if (!read_embed_text(p, &item, json_object_array_get_idx(value, i))) return false;
    }
    return true;
}

/* An empty or absent input gives an empty answer. */
static bool read_embed_input(struct api_parser *p)
{
    const bool old = p->reading.out->kind == OLLAMA_EMBEDDINGS;
    const struct field_path path = field_root(input_field(p));
    json_object *value = json_member(p->json, path.text), *images = json_member(p->json, "images");
    if (!field_is_neutral(images)) return read_embed_images(p, &path, value, images);
    if (!value || field_text_is(value, "")) return true;
    if (!old && json_object_is_type(value, json_type_array))
        return read_embed_list(p, &path, value);
    return pooling_open_prompts(p, input_field(p), 1) && read_embed_text(p, &path, value);
}

bool ollama_read_embed(struct api_parser *p)
{
    p->reading.out->request.truncate = true;
    return pooling_begin(p, EY_TASK_EMBED, "\"%.200s\" does not support embedding") &&
           api_read_fields(p, fields, COUNT(fields)) &&
           api_note_unknown_fields(p, fields, COUNT(fields)) && read_embed_input(p);
}

/* ---- answers ---- */

static void write_old_embedding(struct json_writer *w, const struct api_choice *choices, size_t n)
{
    json_open_object(w);
    json_write_key(w, "embedding");
    pooling_write_vector(w, n ? choices->pooled.vector : NULL, n ? choices->pooled.n_vector : 0);
    json_close_object(w);
}

static void add_duration(struct json_writer *w, const char *key, double seconds)
{
    json_add_int(w, key, (int64_t)(seconds * 1e9));
}

void ollama_write_embed(struct buf *out, struct api_reply *reply, const struct api_choice *choices,
                        size_t n, const struct api_usage *usage)
{
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    if (reply->kind == OLLAMA_EMBEDDINGS) {
        write_old_embedding(&w, choices, n);
        return;
    }
    json_open_object(&w);
    json_add_string(&w, "model", reply->request->model);
    json_write_key(&w, "embeddings");
    json_open_array(&w);
    for (size_t i = 0; i < n; i++)
        pooling_write_vector(&w, choices[i].pooled.vector, choices[i].pooled.n_vector);
    json_close_array(&w);
    add_duration(&w, "total_duration", seconds_now() - reply->requested_at);
    add_duration(&w, "load_duration", reply->load_seconds);
    json_add_int(&w, "prompt_eval_count", usage->prompt_tokens);
    json_close_object(&w);
}
