/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/embeddings and llama.cpp's /embedding and /embeddings. All take OpenAI's `input`, vLLM's
 * `messages` or llama.cpp's `content`; a request with `content` is answered in llama.cpp's form. */
#include <string.h>

#include "base/limits.h"
#include "base/text/json_writer.h"
#include "server/api/common/pooling_inputs.h"
#include "server/api/common/sampling_fields.h"
#include "server/api/pooling/pooling_dialects.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The form of the answer. */
struct embeddings_form {
    bool base64, llamacpp;
};

static struct embeddings_form *form_of(const struct api_reading *r)
{
    return r->out->own;
}

/* ---- single fields ---- */

static bool read_encoding_format(struct api_parser *p, const char *path, json_object *value)
{
    form_of(&p->reading)->base64 = field_text_is(value, "base64");
    return form_of(&p->reading)->base64 || field_text_is(value, "float") ||
           api_fail_field(p->reading.error, path, "\"float\" or \"base64\"", value);
}

static bool read_embed_dtype(struct api_parser *p, const char *path, json_object *value)
{
    return field_text_is(value, "float32") ||
           api_fail_field(p->reading.error, path, "\"float32\"", value);
}

static bool read_endianness(struct api_parser *p, const char *path, json_object *value)
{
    return field_text_is(value, "native") || field_text_is(value, "little") ||
           api_fail_field(p->reading.error, path, "\"native\" or \"little\"", value);
}

static bool read_embd_normalize(struct api_parser *p, const char *path, json_object *value)
{
    int64_t got;
    if (!field_int(&p->reading, path, value, -1, 2, &got)) return false;
    p->reading.out->request.raw_vector = got < 0;
    return got == 2 || got == -1 ||
           api_fail_field(p->reading.error, path, "2 (Euclidean norm) or -1 (none)", value);
}

/* ---- input ---- */

static bool read_one_input(struct api_parser *p, const struct field_path *path, json_object *value)
{
    struct pooling_parts parts;
    if (json_object_is_type(value, json_type_array)) return pooling_add_ids(p, path, value);
    return pooling_read_parts(p, path, value, &parts) && pooling_add_input(p, &parts, NULL);
}

static bool read_each_input(struct api_parser *p, const struct field_path *path, json_object *value)
{
    size_t n;
    if (!field_array(&p->reading, path->text, value, 1, API_MAX_INPUTS, &n) ||
        !pooling_open_prompts(p, "input", n))
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct field_path item = field_item(path, i);
        if (!read_one_input(p, &item, json_object_array_get_idx(value, i))) return false;
    }
    return true;
}

/* An array of numbers is the token ids of one input. In any other array, each item is an input. */
static bool read_inputs(struct api_parser *p, json_object *value)
{
    const struct field_path path = field_root("input");
    const bool list = json_object_is_type(value, json_type_array) &&
                      !json_object_is_type(json_object_array_get_idx(value, 0), json_type_int);
    if (list) return read_each_input(p, &path, value);
    return pooling_open_prompts(p, "input", 1) && read_one_input(p, &path, value);
}

/* ---- messages ---- */

static bool has_message_role(json_object *message, const char *role)
{
    return field_text_is(json_member(message, "role"), role);
}

/* The system message's text is the instruction. */
static bool read_instruction_message(struct api_parser *p, const struct field_path *path,
                                     json_object *value)
{
    struct pooling_parts parts;
    if (!pooling_read_parts(p, path, value, &parts)) return false;
    if (parts.n != 1 || parts.part->type != EY_PART_TEXT)
        return api_fail(p->reading.error, path->text,
                        "%s: a system message must be one text, which is the instruction",
                        path->text);
    p->reading.out->instruction = parts.part->bytes;
    p->reading.out->n_instruction = parts.part->n_bytes;
    return true;
}

static bool read_parts_message(struct api_parser *p, const struct field_path *path,
                               json_object *value, struct pooling_parts *all)
{
    struct pooling_parts parts;
    return pooling_read_parts(p, path, value, &parts) && pooling_append_parts(p, all, &parts);
}

/* All messages together are one input. An empty message of the assistant, with which vLLM's
 * examples end, is ignored. */
static bool read_input_message(struct api_parser *p, const struct field_path *path,
                               json_object *message, struct pooling_parts *all)
{
    const struct field_path content = field_member(path, "content"),
                            role = field_member(path, "role");
    json_object *value = json_member(message, "content");
    if (!field_object(&p->reading, path->text, message)) return false;
    if (has_message_role(message, "assistant") && field_is_neutral(value)) return true;
    if (!has_message_role(message, "system") && !has_message_role(message, "user"))
        return api_fail_field(p->reading.error, role.text, "\"system\" or \"user\"",
                              json_member(message, "role"));
    if (!value)
        return api_fail_value(p->reading.error, content.text, "%s is missing", content.text);
    return has_message_role(message, "system") ? read_instruction_message(p, &content, value)
                                               : read_parts_message(p, &content, value, all);
}

static bool read_input_messages(struct api_parser *p, json_object *value)
{
    const struct field_path path = field_root("messages");
    struct pooling_parts all = {0};
    size_t n;
    if (!field_array(&p->reading, path.text, value, 1, EY_MAX_MESSAGES, &n)) return false;
    for (size_t i = 0; i < n; i++) {
        const struct field_path item = field_item(&path, i);
        if (!read_input_message(p, &item, json_object_array_get_idx(value, i), &all)) return false;
    }
    return pooling_open_prompts(p, "messages", 1) && pooling_add_input(p, &all, NULL);
}

/* ---- llama.cpp's content ---- */

static bool is_blank_byte(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Removes the markers and the white space around them, and counts the markers. Returns NULL if
 * memory runs out. */
static char *text_without_markers(struct arena *arena, const char *text, size_t *n, size_t *markers)
{
    char *out = arena_alloc(arena, *n + 1);
    size_t used = 0;
    *markers = 0;
    for (size_t i = 0; out && i < *n;) {
        const size_t length = strlen(API_MEDIA_MARKER);
        if (*n - i < length || memcmp(text + i, API_MEDIA_MARKER, length) != 0) {
            out[used++] = text[i++];
            continue;
        }
        ++*markers;
        i += length;
        while (used && is_blank_byte(out[used - 1]))
            used--;
        while (i < *n && is_blank_byte(text[i]))
            i++;
    }
    *n = used;
    return out;
}

static bool add_prompt_text(struct api_parser *p, const char *text, size_t n)
{
    ey_part part = {.type = EY_PART_TEXT, .bytes = text, .n_bytes = n};
    if (pooling_is_finished(text, n)) return pooling_add_finished(p, text, n);
    ey_part *copy = arena_array(p->reading.passing, 1, sizeof(*copy));
    if (!copy) return api_fail_memory(p->reading.error);
    *copy = part;
    return pooling_add_input(p, &(struct pooling_parts){.part = copy, .n = 1}, NULL);
}

/* Reads {prompt_string, multimodal_data}. The text must have a marker for each image. */
static bool add_prompt_object(struct api_parser *p, const struct field_path *path,
                              json_object *value)
{
    const struct api_reading *r = &p->reading;
    const struct field_path name = field_member(path, "prompt_string"),
                            data_name = field_member(path, "multimodal_data");
    json_object *given = json_member(value, "prompt_string"),
                *data = json_member(value, "multimodal_data");
    const char *text;
    size_t n, markers;
    if (!given) return api_fail_value(r->error, name.text, "%s is missing", name.text);
    if (!field_text(r, name.text, given, EY_MAX_TEXT_BYTES, &text, &n)) return false;
    if (!data && !memmem(text, n, API_MEDIA_MARKER, strlen(API_MEDIA_MARKER)))
        return add_prompt_text(p, text, n);
    ey_part *part = arena_array(r->passing, 1, sizeof(*part));
    char *bare = text_without_markers(r->passing, text, &n, &markers);
    if (!part || !bare) return api_fail_memory(r->error);
    *part = (ey_part){.type = EY_PART_TEXT, .bytes = bare, .n_bytes = n};
    struct pooling_parts parts = {.part = part, .n = n ? 1 : 0};
    if (data && !pooling_read_images(p, data_name.text, data, &parts)) return false;
    return parts.n_images == markers ? pooling_add_input(p, &parts, NULL)
                                     : api_fail(r->error, data_name.text,
                                                "%s has %zu images; the text has %zu markers "
                                                "(" API_MEDIA_MARKER ")",
                                                data_name.text, parts.n_images, markers);
}

static bool read_one_content(struct api_parser *p, const struct field_path *path,
                             json_object *value)
{
    const char *text;
    size_t n;
    if (json_object_is_type(value, json_type_array)) return pooling_add_ids(p, path, value);
    if (json_object_is_type(value, json_type_object)) return add_prompt_object(p, path, value);
    return field_text(&p->reading, path->text, value, EY_MAX_TEXT_BYTES, &text, &n) &&
           add_prompt_text(p, text, n);
}

static bool read_llamacpp_content(struct api_parser *p, json_object *value)
{
    const struct field_path path = field_root("content");
    const bool list = json_object_is_type(value, json_type_array) &&
                      !json_object_is_type(json_object_array_get_idx(value, 0), json_type_int);
    size_t n = 1;
    form_of(&p->reading)->llamacpp = true;
    if (list && !field_array(&p->reading, path.text, value, 1, API_MAX_INPUTS, &n)) return false;
    if (!pooling_open_prompts(p, "content", n)) return false;
    for (size_t i = 0; i < n; i++) {
        const struct field_path item = list ? field_item(&path, i) : path;
        if (!read_one_content(p, &item, list ? json_object_array_get_idx(value, i) : value))
            return false;
    }
    return true;
}

/* ---- the table ---- */

enum { BOTH = 1 << EMBEDDINGS_OPENAI | 1 << EMBEDDINGS_LLAMACPP };

/* The inputs are read after the table's fields, because they need the instruction. */
static const struct api_field fields[] = {
    {"model", BOTH, accept_field},
    {"encoding_format", BOTH, read_encoding_format},
    {"dimensions", BOTH, pooling_read_dimensions},
    {"instruction", BOTH, pooling_read_instruction},
    {"truncate", BOTH, pooling_read_truncate_flag},
    {"truncate_prompt_tokens", BOTH, pooling_read_truncation},
    {"normalize", BOTH, pooling_read_normalize},
    {"use_activation", BOTH, pooling_read_normalize},
    {"embd_normalize", BOTH, read_embd_normalize},
    {"embed_dtype", BOTH, read_embed_dtype},
    {"endianness", BOTH, read_endianness},
    {"mm_processor_kwargs", BOTH, read_mm_processor},
    /* The next five fields have no effect: prompts are always built as the model card shows. */
    {"add_generation_prompt", BOTH, accept_field},
    {"continue_final_message", BOTH, accept_field},
    {"add_special_tokens", BOTH, accept_field},
    {"chat_template", BOTH, accept_field},
    {"chat_template_kwargs", BOTH, accept_field},
    {"priority", BOTH, accept_field},
    {"user", BOTH, accept_field},
    {"input", BOTH, accept_field},
    {"messages", BOTH, accept_field},
    {"content", BOTH, accept_field},
};

static bool read_embedded_input(struct api_parser *p)
{
    json_object *content = json_member(p->json, "content"), *input = json_member(p->json, "input"),
                *messages = json_member(p->json, "messages");
    if (content) return read_llamacpp_content(p, content);
    if (input) return read_inputs(p, input);
    if (messages) return read_input_messages(p, messages);
    return api_fail_value(p->reading.error, "input", "input is missing");
}

static bool read_embeddings(struct api_parser *p)
{
    struct api_request *out = p->reading.out;
    out->own = arena_array(p->reading.lasting, 1, sizeof(struct embeddings_form));
    if (!out->own) return api_fail_memory(p->reading.error);
    if (!pooling_begin(p, EY_TASK_EMBED,
                       "The model `%.200s` does not make embeddings; serve a Qwen3-VL-Embedding "
                       "checkpoint")) {
        if (out->kind == EMBEDDINGS_LLAMACPP && p->reading.error->code == API_ERROR_UNSUPPORTED)
            p->reading.error->status = 501;
        return false;
    }
    return api_read_fields(p, fields, COUNT(fields)) &&
           api_note_unknown_fields(p, fields, COUNT(fields)) && read_embedded_input(p);
}

/* ---- answers ---- */

static void write_llamacpp_vectors(struct json_writer *w, const struct api_choice *choices,
                                   size_t n)
{
    json_open_array(w);
    for (size_t i = 0; i < n; i++) {
        json_open_object(w);
        json_add_int(w, "index", choices[i].index);
        json_write_key(w, "embedding");
        json_open_array(w); /* of one vector; llama.cpp sends one per token if it does not pool */
        pooling_write_vector(w, choices[i].pooled.vector, choices[i].pooled.n_vector);
        json_close_array(w);
        json_close_object(w);
    }
    json_close_array(w);
}

static void write_openai_vector(struct json_writer *w, const struct api_choice *choice, bool base64)
{
    json_open_object(w);
    json_add_string(w, "object", "embedding");
    json_add_int(w, "index", choice->index);
    json_write_key(w, "embedding");
    if (base64)
        pooling_write_base64(w, choice->pooled.vector, choice->pooled.n_vector);
    else
        pooling_write_vector(w, choice->pooled.vector, choice->pooled.n_vector);
    json_close_object(w);
}

static void write_embeddings(struct buf *out, struct api_reply *reply,
                             const struct api_choice *choices, size_t n,
                             const struct api_usage *usage)
{
    const struct embeddings_form *form = reply->request->own;
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    if (form->llamacpp) {
        write_llamacpp_vectors(&w, choices, n);
        return;
    }
    json_open_object(&w);
    json_add_string(&w, "object", "list");
    json_add_string(&w, "model", reply->model);
    json_write_key(&w, "data");
    json_open_array(&w);
    for (size_t i = 0; i < n; i++)
        write_openai_vector(&w, &choices[i], form->base64);
    json_close_array(&w);
    json_write_key(&w, "usage");
    json_open_object(&w);
    json_add_int(&w, "prompt_tokens", usage->prompt_tokens);
    json_add_int(&w, "total_tokens", usage->prompt_tokens);
    json_close_object(&w);
    json_close_object(&w);
}

const struct api_dialect embeddings_dialects[] = {
    [EMBEDDINGS_OPENAI] = {.kind = EMBEDDINGS_OPENAI,
                           .id_prefix = "embd-",
                           .call_prefix = "",
                           .json_type = "application/json",
                           .read = read_embeddings,
                           .write_whole = write_embeddings},
    [EMBEDDINGS_LLAMACPP] = {.kind = EMBEDDINGS_LLAMACPP,
                             .id_prefix = "embd-",
                             .call_prefix = "",
                             .json_type = "application/json",
                             .lenient = true,
                             .read = read_embeddings,
                             .write_whole = write_embeddings}};
