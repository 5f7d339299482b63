/* SPDX-License-Identifier: Apache-2.0 */
#include "server/api/common/pooling_inputs.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/text/base64.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define IM_START "<|im_start|>"

/* ---- the request ---- */

bool pooling_begin(struct api_parser *p, ey_task wanted, const char *chat)
{
    const struct api_reading *r = &p->reading;
    const ey_task task = r->limits->task;
    ey_request *request = &r->out->request;
    if (task == EY_TASK_GENERATE || (wanted == EY_TASK_EMBED && task != wanted)) {
        api_fail(r->error, "model", chat, r->out->model[0] ? r->out->model : "default");
        r->error->code = API_ERROR_UNSUPPORTED;
        return false;
    }
    request->pool = true;
    request->add_bos = false;
    return image_refs_open_for(r, &p->images, EY_MAX_IMAGES);
}

bool pooling_open_prompts(struct api_parser *p, const char *name, size_t n)
{
    struct api_request *out = p->reading.out;
    out->prompts = arena_array(p->reading.passing, n + 1, sizeof(*out->prompts));
    out->prompts_name = name;
    return out->prompts || api_fail_memory(p->reading.error);
}

static struct api_prompt *next_prompt(struct api_request *out)
{
    struct api_prompt *prompt = &out->prompts[out->n_prompts++];
    *prompt = (struct api_prompt){0};
    return prompt;
}

/* ---- parts ---- */

static bool starts_as(const char *text, size_t n, const char *beginning)
{
    const size_t length = strlen(beginning);
    return n >= length && strncmp(text, beginning, length) == 0;
}

static bool is_image_url(const char *text, size_t n)
{
    static const char *const schemes[] = {"data:", "http:", "https:", "file:"};
    for (size_t i = 0; i < COUNT(schemes); i++)
        if (starts_as(text, n, schemes[i])) return true;
    return false;
}

/* Reads an image as a URL or bare base64, from a member of `holder`. */
static bool read_image_of_input(struct api_parser *p, const struct field_path *path,
                                json_object *holder, const char *member, ey_part *out)
{
    const struct api_reading *r = &p->reading;
    struct image_ref *ref = image_refs_add(r, &p->images, path, out);
    if (!ref) return false;
    ref->holder = holder;
    ref->member = member;
    if (!field_text(r, path->text, json_member(holder, member), EY_MAX_JSON_BYTES, &ref->url,
                    &ref->n_url))
        return false;
    ref->base64 = !is_image_url(ref->url, ref->n_url);
    return true;
}

/* Reads an image_url part: an object {url}, or a string as some clients send. */
static bool read_image_member(struct api_parser *p, const struct field_path *path,
                              json_object *part, const char *member, ey_part *out)
{
    const struct field_path name = field_member(path, member), url = field_member(&name, "url");
    json_object *image = json_member(part, member);
    if (!image) return api_fail_value(p->reading.error, name.text, "%s is missing", name.text);
    if (!json_object_is_type(image, json_type_object))
        return read_image_of_input(p, &name, part, member, out);
    if (json_member(image, "url")) return read_image_of_input(p, &url, image, "url", out);
    return api_fail_value(p->reading.error, url.text, "%s is missing", url.text);
}

/* Jina's, Voyage's and vLLM's names for an image. */
static const char *const image_members[] = {"image_url", "image", "image_base64"};

static bool read_part_of_input(struct api_parser *p, const struct field_path *path,
                               json_object *part, ey_part *out)
{
    const struct field_path text = field_member(path, "text"), type = field_member(path, "type");
    if (json_object_is_type(part, json_type_string))
        return field_text_part(&p->reading, path, part, out);
    if (!json_object_is_type(part, json_type_object))
        return api_fail_field(p->reading.error, path->text, "a string or an object", part);
    for (size_t i = 0; i < COUNT(image_members); i++)
        if (json_member(part, image_members[i]))
            return read_image_member(p, path, part, image_members[i], out);
    if (json_member(part, "text"))
        return field_text_part(&p->reading, &text, json_member(part, "text"), out);
    const char *given = json_object_get_string(json_member(part, "type"));
    if (given && (strcmp(given, "text") == 0 || strcmp(given, "image_url") == 0)) {
        const struct field_path missing = field_member(path, given);
        return api_fail(p->reading.error, missing.text, "%s is missing", missing.text);
    }
    return api_fail_field(p->reading.error, type.text, "\"text\" or \"image_url\"",
                          json_member(part, "type"));
}

static bool open_input_parts(struct api_parser *p, struct pooling_parts *out, size_t n)
{
    out->part = arena_array(p->reading.passing, n + 1, sizeof(*out->part));
    return out->part || api_fail_memory(p->reading.error);
}

static bool read_input_content(struct api_parser *p, const struct field_path *path,
                               json_object *value, struct pooling_parts *out)
{
    size_t n = 1;
    const bool list = json_object_is_type(value, json_type_array);
    if (list && !field_array(&p->reading, path->text, value, 0, EY_MAX_CONTENT_PARTS, &n))
        return false;
    if (!open_input_parts(p, out, n)) return false;
    for (size_t i = 0; i < n; i++, out->n++) {
        const struct field_path item = list ? field_item(path, i) : *path;
        json_object *part = list ? json_object_array_get_idx(value, i) : value;
        if (!read_part_of_input(p, &item, part, &out->part[i])) return false;
    }
    return true;
}

/* {text, image, instruction} */
static bool read_input_object(struct api_parser *p, const struct field_path *path,
                              json_object *value, struct pooling_parts *out)
{
    const struct field_path text = field_member(path, "text");
    if (!open_input_parts(p, out, COUNT(image_members) + 1)) return false;
    for (size_t i = 0; i < COUNT(image_members); i++)
        if (json_member(value, image_members[i]) &&
            !read_image_member(p, path, value, image_members[i], &out->part[out->n++]))
            return false;
    if (!json_member(value, "text") && !out->n)
        return api_fail_value(p->reading.error, path->text, "%s has no text, image or content",
                              path->text);
    return !json_member(value, "text") ||
           field_text_part(&p->reading, &text, json_member(value, "text"), &out->part[out->n++]);
}

static bool read_own_instruction(struct api_parser *p, const struct field_path *path,
                                 json_object *value, struct pooling_parts *out)
{
    const struct field_path name = field_member(path, "instruction");
    json_object *given = json_member(value, "instruction");
    return !given || field_text(&p->reading, name.text, given, EY_MAX_TEXT_BYTES, &out->instruction,
                                &out->n_instruction);
}

static bool read_parts_of_any(struct api_parser *p, const struct field_path *path,
                              json_object *value, struct pooling_parts *out)
{
    const struct field_path content = field_member(path, "content");
    if (json_object_is_type(value, json_type_string) || json_object_is_type(value, json_type_array))
        return read_input_content(p, path, value, out);
    if (!json_object_is_type(value, json_type_object))
        return api_fail_field(p->reading.error, path->text, "a string or an object", value);
    if (!read_own_instruction(p, path, value, out)) return false;
    if (json_member(value, "content"))
        return read_input_content(p, &content, json_member(value, "content"), out);
    return read_input_object(p, path, value, out);
}

bool pooling_read_parts(struct api_parser *p, const struct field_path *path, json_object *value,
                        struct pooling_parts *out)
{
    *out = (struct pooling_parts){.first_image = p->images.n, .value = value};
    if (!read_parts_of_any(p, path, value, out)) return false;
    out->n_images = p->images.n - out->first_image;
    return true;
}

/* Moves parts, and redirects their images to the new addresses. */
static void move_parts(struct api_parser *p, ey_part *to, const ey_part *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = from[i];
    for (size_t i = 0; i < p->images.n; i++) {
        struct image_ref *ref = &p->images.ref[i];
        if (ref->part >= from && ref->part < from + n) ref->part = to + (ref->part - from);
    }
}

bool pooling_append_parts(struct api_parser *p, struct pooling_parts *all,
                          const struct pooling_parts *more)
{
    ey_part *joined = arena_array(p->reading.passing, all->n + more->n + 1, sizeof(*joined));
    if (!joined) return api_fail_memory(p->reading.error);
    move_parts(p, joined, all->part, all->n);
    move_parts(p, joined + all->n, more->part, more->n);
    all->part = joined;
    all->n += more->n;
    all->n_images += more->n_images;
    return true;
}

bool pooling_read_images(struct api_parser *p, const char *path, json_object *value,
                         struct pooling_parts *out)
{
    const struct field_path whole = field_root(path);
    const struct pooling_parts texts = *out;
    size_t n;
    if (!field_array(&p->reading, path, value, 0, EY_MAX_IMAGES, &n) ||
        !open_input_parts(p, out, n + texts.n))
        return false;
    out->first_image = p->images.n;
    for (size_t i = 0; i < n; i++)
        if (!image_refs_add_item(&p->reading, &p->images, &whole, value, i, &out->part[i]))
            return false;
    for (size_t i = 0; i < texts.n; i++)
        out->part[n + i] = texts.part[i];
    out->n = n + texts.n;
    out->n_images = n;
    return true;
}

/* ---- inputs ---- */

bool pooling_add_input(struct api_parser *p, const struct pooling_parts *parts,
                       const struct pooling_parts *query)
{
    struct api_request *out = p->reading.out;
    ey_pooling_input *input = arena_array(p->reading.passing, 1, sizeof(*input));
    if (!input) return api_fail_memory(p->reading.error);
    const struct pooling_parts *instructed = parts->instruction            ? parts
                                             : query && query->instruction ? query
                                                                           : NULL;
    *input = (ey_pooling_input){
        .instruction = instructed ? instructed->instruction : out->instruction,
        .n_instruction = instructed ? instructed->n_instruction : out->n_instruction,
        .parts = parts->part,
        .n_parts = parts->n,
        .query = query ? query->part : NULL,
        .n_query = query ? query->n : 0,
    };
    struct api_prompt *prompt = next_prompt(out);
    prompt->input = input;
    prompt->first_image = parts->first_image;
    prompt->first_query_image = query ? query->first_image : 0;
    prompt->n_query_images = query ? query->n_images : 0;
    return true;
}

bool pooling_is_finished(const char *text, size_t n)
{
    return starts_as(text, n, IM_START);
}

bool pooling_add_finished(struct api_parser *p, const char *text, size_t n)
{
    struct api_prompt *prompt = next_prompt(p->reading.out);
    prompt->text = text;
    prompt->n_text = n;
    prompt->finished = true;
    return true;
}

/* Requires a rendered prompt, because ids of another model's tokenizer would give a vector that
 * looks valid but means nothing. */
bool pooling_add_ids(struct api_parser *p, const struct field_path *path, json_object *value)
{
    const struct api_reading *r = &p->reading;
    const int first = r->limits->turn_start;
    json_object *begin = json_object_array_get_idx(value, 0);
    if (first < 0 || !json_object_is_type(begin, json_type_int) ||
        json_object_get_int64(begin) != first)
        return api_fail(r->error, path->text,
                        "%s: token ids must be a complete prompt with the chat template applied, "
                        "which begins with %d "
                        "(" IM_START "); send texts instead (LangChain: "
                        "check_embedding_ctx_length=False)",
                        path->text, first);
    struct api_prompt *prompt = next_prompt(r->out);
    prompt->finished = true;
    return field_ids(r, path->text, value, EY_MAX_REQUEST_VALUES, r->passing, &prompt->ids,
                     &prompt->n_ids);
}

/* ---- fields ---- */

bool pooling_read_instruction(struct api_parser *p, const char *path, json_object *value)
{
    return field_text(&p->reading, path, value, EY_MAX_TEXT_BYTES, &p->reading.out->instruction,
                      &p->reading.out->n_instruction);
}

bool pooling_read_dimensions(struct api_parser *p, const char *path, json_object *value)
{
    const int all = p->reading.limits->dimensions,
              least = all < EY_MIN_DIMENSIONS ? all : EY_MIN_DIMENSIONS;
    int64_t got;
    if (!field_int(&p->reading, path, value, least, all, &got)) return false;
    p->reading.out->request.dimensions = (int)got;
    return true;
}

/* -1 means the model's maximum. */
bool pooling_read_truncation(struct api_parser *p, const char *path, json_object *value)
{
    int64_t got;
    if (!field_int(&p->reading, path, value, -1, EY_MAX_CONTEXT, &got)) return false;
    p->reading.out->request.truncate = true;
    p->reading.out->request.max_prompt_tokens = got > 0 ? (int)got : 0;
    return true;
}

bool pooling_read_truncate_flag(struct api_parser *p, const char *path, json_object *value)
{
    bool truncate;
    if (!field_bool(&p->reading, path, value, &truncate)) return false;
    p->reading.out->request.truncate |= truncate;
    return true;
}

bool pooling_read_normalize(struct api_parser *p, const char *path, json_object *value)
{
    bool normalize;
    if (!field_bool(&p->reading, path, value, &normalize)) return false;
    p->reading.out->request.raw_vector = !normalize;
    return true;
}

/* ---- vectors ---- */

void pooling_write_vector(struct json_writer *w, const float *vector, size_t n)
{
    json_open_array(w);
    for (size_t i = 0; i < n; i++)
        json_write_digits(w, (double)vector[i], 9);
    json_close_array(w);
}

void pooling_write_base64(struct json_writer *w, const float *vector, size_t n)
{
    struct buf text = buf_with_max(EY_MAX_RESPONSE_BYTES);
    if (!base64_encode(&text, vector, n * sizeof(*vector))) buf_fail(w->out);
    json_write_text(w, text.data ? text.data : "", text.size);
    buf_free(&text);
}
