/* SPDX-License-Identifier: Apache-2.0 */
#include "server/api/llamacpp/llamacpp_prompt.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

#define ID_MARKER "[img-"

/* The images that a prompt's text refers to. */
struct prompt_images {
    json_object *list; /* NULL: none */
    struct field_path path;
    size_t n, n_used;
    bool by_id; /* the list is image_data; otherwise it is multimodal_data */
    bool used[EY_MAX_IMAGES];
};

struct image_marker {
    const char *at; /* NULL: there is none */
    size_t n, image;
};

/* ---- markers ---- */

/* Returns the index of the image with this id, or images->n if there is none. */
static size_t find_image_id(const struct prompt_images *images, long id)
{
    size_t i = 0;
    for (; i < images->n; i++) {
        json_object *given = json_member(json_object_array_get_idx(images->list, i), "id");
        if (json_object_is_type(given, json_type_int) && json_object_get_int64(given) == id) break;
    }
    return i;
}

/* A marker whose id belongs to no image is plain text. */
static struct image_marker find_id_marker(const struct prompt_images *images, const char *text,
                                          const char *end)
{
    enum { MAX_DIGITS = 9 };
    const size_t length = strlen(ID_MARKER);
    const char *at = text;
    while ((at = memmem(at, (size_t)(end - at), ID_MARKER, length))) {
        const char *digits = at + length, *behind = digits;
        long id = 0;
        for (; behind < end && behind - digits < MAX_DIGITS && *behind >= '0' && *behind <= '9';
             behind++)
            id = 10 * id + (*behind - '0');
        size_t image = behind > digits && behind < end && *behind == ']' ? find_image_id(images, id)
                                                                         : images->n;
        if (image < images->n) return (struct image_marker){at, (size_t)(behind + 1 - at), image};
        at += length;
    }
    return (struct image_marker){0};
}

static struct image_marker find_image_marker(const struct prompt_images *images, const char *text,
                                             const char *end)
{
    if (images->by_id) return find_id_marker(images, text, end);
    const size_t n = strlen(API_MEDIA_MARKER);
    const char *at = memmem(text, (size_t)(end - text), API_MEDIA_MARKER, n);
    return (struct image_marker){at, n, images->n_used};
}

/* ---- parts ---- */

/* Several prompts may use the same image, so only the last reference frees its text. */
static void share_image_text(struct image_refs *refs, const char *text)
{
    for (size_t i = 0; i < refs->n; i++)
        refs->ref[i].shared = refs->ref[i].shared || refs->ref[i].url == text;
}

static bool fail_image_twice(const struct api_reading *r, const struct prompt_images *images,
                             size_t i)
{
    struct field_path path = field_item(&images->path, i);
    return api_fail(r->error, path.text,
                    "%s is used twice in one prompt; send the image twice, with two ids",
                    path.text);
}

static bool add_prompt_image(struct api_parser *p, struct prompt_images *images, size_t i,
                             ey_part *out)
{
    const struct api_reading *r = &p->reading;
    struct field_path path = field_item(&images->path, i);
    json_object *item = json_object_array_get_idx(images->list, i), *text = item;
    if (images->by_id) {
        path = field_member(&path, "data");
        text = json_member(item, "data");
    }
    const char *bytes;
    size_t n;
    if (!text) return api_fail_value(r->error, path.text, "%s is missing", path.text);
    if (images->used[i]) return fail_image_twice(r, images, i);
    if (!field_text(r, path.text, text, EY_MAX_JSON_BYTES, &bytes, &n)) return false;
    share_image_text(&p->images, bytes);
    struct image_ref *ref = image_refs_add(r, &p->images, &path, out);
    if (!ref) return false;
    ref->url = bytes;
    ref->n_url = n;
    ref->base64 = !image_text_is_data_url(ref->url, ref->n_url);
    ref->holder = images->by_id ? item : images->list;
    ref->member = images->by_id ? "data" : NULL;
    ref->index = i;
    images->used[i] = true;
    images->n_used++;
    return true;
}

static bool fail_image_count(const struct api_reading *r, const struct prompt_images *images)
{
    return api_fail(r->error, images->path.text,
                    "%s has %zu images, but the prompt does not have exactly one %s for each",
                    images->path.text, images->n,
                    images->by_id ? ID_MARKER "ID]" : API_MEDIA_MARKER);
}

/* Replaces each marker by its image. Each image must have exactly one marker. */
static bool read_text_with_images(struct api_parser *p, struct prompt_images *images,
                                  const char *text, size_t n, struct api_prompt *out)
{
    const struct api_reading *r = &p->reading;
    const char *end = text + n;
    ey_part *part = arena_array(r->passing, 2 * images->n + 1, sizeof(*part));
    if (!part) return api_fail_memory(r->error);
    out->parts = part;
    out->first_image = p->images.n;
    for (;;) {
        struct image_marker marker = find_image_marker(images, text, end);
        const char *stop = marker.at ? marker.at : end;
        if (stop > text)
            part[out->n_parts++] = (ey_part){
                .type = EY_PART_TEXT, .bytes = text, .n_bytes = (size_t)(stop - text)};
        if (!marker.at) break;
        if (images->n_used == images->n) return fail_image_count(r, images);
        if (!add_prompt_image(p, images, marker.image, &part[out->n_parts++])) return false;
        text = stop + marker.n;
    }
    return images->n_used == images->n || fail_image_count(r, images);
}

/* ---- prompts ---- */

static bool read_prompt_text(struct api_parser *p, const struct field_path *path,
                             json_object *value, struct prompt_images *images,
                             struct api_prompt *out)
{
    const struct api_reading *r = &p->reading;
    const char *text;
    size_t n;
    if (!field_text(r, path->text, value, EY_MAX_TEXT_BYTES, &text, &n)) return false;
    if (!n) return api_fail_value(r->error, path->text, "%s must not be empty", path->text);
    bool lacks_images = images->list && !images->by_id && !images->n &&
                        find_image_marker(images, text, text + n).at;
    if (lacks_images) return fail_image_count(r, images);
    if (images->n) return read_text_with_images(p, images, text, n, out);
    out->text = text;
    out->n_text = n;
    return true;
}

/* {prompt_string, multimodal_data} */
static bool read_prompt_object(struct api_parser *p, const struct field_path *path,
                               json_object *value, struct api_prompt *out)
{
    const struct api_reading *r = &p->reading;
    const struct field_path text = field_member(path, "prompt_string");
    struct prompt_images images = {.list = json_member(value, "multimodal_data"),
                                   .path = field_member(path, "multimodal_data")};
    json_object *given = json_member(value, "prompt_string");
    if (!given) return api_fail_value(r->error, text.text, "%s is missing", text.text);
    if (images.list && !field_array(r, images.path.text, images.list, 0, EY_MAX_IMAGES, &images.n))
        return false;
    return read_prompt_text(p, &text, given, &images, out);
}

/* Fails for image_data with a prompt that is not a string. */
static bool fail_image_data(const struct api_reading *r, const struct prompt_images *images)
{
    return api_fail(r->error, images->path.text,
                    "image_data needs a prompt that is a string with [img-ID]; an object takes its "
                    "images from multimodal_data, and token ids cannot have images");
}

static bool read_one_prompt(struct api_parser *p, const struct field_path *path, json_object *value,
                            struct api_prompt *out)
{
    const struct api_reading *r = &p->reading;
    struct prompt_images images = {.list = json_member(p->json, "image_data"),
                                   .path = field_root("image_data"),
                                   .by_id = true};
    if (images.list && !field_array(r, images.path.text, images.list, 0, EY_MAX_IMAGES, &images.n))
        return false;
    if (images.n && !json_object_is_type(value, json_type_string))
        return fail_image_data(r, &images);
    if (json_object_is_type(value, json_type_object))
        return read_prompt_object(p, path, value, out);
    if (json_object_is_type(value, json_type_array)) {
        if (!field_ids(r, path->text, value, EY_MAX_REQUEST_VALUES, r->passing, &out->ids,
                       &out->n_ids))
            return false;
        return out->n_ids ||
               api_fail_value(r->error, path->text, "%s must not be empty", path->text);
    }
    if (!json_object_is_type(value, json_type_string))
        return api_fail_field(r->error, path->text,
                              "a string, an array of token ids, an object with prompt_string, or a "
                              "list of these",
                              value);
    return read_prompt_text(p, path, value, &images, out);
}

bool read_llamacpp_prompt(struct api_parser *p, const char *path, json_object *value)
{
    const struct api_reading *r = &p->reading;
    const struct field_path whole = field_root(path);
    const bool several = json_object_is_type(value, json_type_array) &&
                         !json_object_is_type(json_object_array_get_idx(value, 0), json_type_int);
    size_t n = 1;
    if (several && !field_array(r, path, value, 1, EY_MAX_PROMPTS, &n)) return false;
    if (n > 1 && r->out->stream)
        return api_fail(r->error, path, "%s: several prompts cannot be streamed; send each alone",
                        path);
    if (!image_refs_open(r, &p->images)) return false;
    r->out->prompts = arena_array(r->passing, n, sizeof(*r->out->prompts));
    if (!r->out->prompts) return api_fail_memory(r->error);
    r->out->n_prompts = n;
    r->out->request.parse_special_tokens = true;
    for (size_t i = 0; i < n; i++) {
        const struct field_path item = several ? field_item(&whole, i) : whole;
        json_object *prompt = several ? json_object_array_get_idx(value, i) : value;
        if (!read_one_prompt(p, &item, prompt, &r->out->prompts[i])) return false;
    }
    return true;
}
