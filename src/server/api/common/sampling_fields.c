/* SPDX-License-Identifier: Apache-2.0 */
/* Field readers that APIs share. */
#include "server/api/common/sampling_fields.h"

#include <float.h>

#include "base/limits.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- sampling ---- */

bool read_stream_flag(struct api_parser *p, const char *path, json_object *value)
{
    return field_bool(&p->reading, path, value, &p->reading.out->stream);
}

bool read_max_tokens(struct api_parser *p, const char *path, json_object *value)
{
    int64_t got;
    if (!field_int(&p->reading, path, value, 1, EY_MAX_CONTEXT, &got)) return false;
    p->reading.out->request.max_tokens = (int)got;
    p->reading.out->length_given = true;
    return true;
}

bool read_temperature(struct api_parser *p, const char *path, json_object *value)
{
    return field_number(&p->reading, path, value, 0, 2, "[0, 2]",
                        &p->reading.out->request.sampling.temperature);
}

bool read_top_p(struct api_parser *p, const char *path, json_object *value)
{
    return field_number(&p->reading, path, value, 0, 1, "[0, 1]",
                        &p->reading.out->request.sampling.top_p);
}

bool read_top_k(struct api_parser *p, const char *path, json_object *value)
{
    int64_t got;
    if (!field_int(&p->reading, path, value, -1, INT32_MAX, &got)) return false;
    p->reading.out->request.sampling.top_k = got > 0 && got < p->reading.limits->vocab_size
                                                 ? (int)got
                                                 : 0;
    return true;
}

bool read_min_p(struct api_parser *p, const char *path, json_object *value)
{
    return field_number(&p->reading, path, value, 0, 1, "[0, 1]",
                        &p->reading.out->request.sampling.min_p);
}

bool read_repetition_penalty(struct api_parser *p, const char *path, json_object *value)
{
    return field_number(&p->reading, path, value, FLT_MIN, 100, "(0, 100]",
                        &p->reading.out->request.sampling.repetition_penalty);
}

bool read_presence_penalty(struct api_parser *p, const char *path, json_object *value)
{
    return field_number(&p->reading, path, value, -2, 2, "[-2, 2]",
                        &p->reading.out->request.sampling.presence_penalty);
}

bool read_frequency_penalty(struct api_parser *p, const char *path, json_object *value)
{
    return field_number(&p->reading, path, value, -2, 2, "[-2, 2]",
                        &p->reading.out->request.sampling.frequency_penalty);
}

/* -1 requests a random seed, as in vLLM. */
bool read_seed(struct api_parser *p, const char *path, json_object *value)
{
    int64_t got;
    if (!field_int64(&p->reading, path, value, &got)) return false;
    p->reading.out->seed_given = got != -1;
    p->reading.out->request.sampling.seed = (uint64_t)got;
    return true;
}

/* ---- the end of an answer ---- */

bool read_stop(struct api_parser *p, const char *path, json_object *value)
{
    const struct api_reading *r = &p->reading;
    struct field_path whole = field_root(path);
    bool list = json_object_is_type(value, json_type_array);
    size_t n = 1;
    if (!list && !json_object_is_type(value, json_type_string))
        return api_fail_field(r->error, path, "a string or an array of strings", value);
    if (list && !field_array(r, path, value, 0, EY_MAX_STOP_STRINGS, &n)) return false;
    const char **stops = arena_array(r->lasting, n + 1, sizeof(*stops));
    if (!stops) return api_fail_memory(r->error);
    for (size_t i = 0; i < n; i++) {
        json_object *item = list ? json_object_array_get_idx(value, i) : value;
        if (!field_name(r, list ? field_item(&whole, i).text : path, item, EY_MAX_STOP_BYTES,
                        r->lasting, &stops[i]))
            return false;
    }
    r->out->request.stop = stops;
    r->out->request.n_stop = n;
    return true;
}

/* ---- images ---- */

static bool read_pixels(struct api_parser *p, const struct field_path *path, json_object *object,
                        const char *name, uint64_t *out)
{
    json_object *value = json_member(object, name);
    int64_t got = 0;
    if (value &&
        !field_int(&p->reading, field_member(path, name).text, value, 1, (int64_t)1 << 40, &got))
        return false;
    if (value) *out = (uint64_t)got;
    return true;
}

/* {"min_pixels", "max_pixels"}, or the processor's form {"size": {"shortest_edge",
 * "longest_edge"}}, whose values are also pixels. */
bool read_mm_processor(struct api_parser *p, const char *path, json_object *value)
{
    static const char *const known[] = {"min_pixels", "max_pixels", "size"}, *const edges[] = {
                                                                                 "shortest_edge",
                                                                                 "longest_edge"};
    struct field_path whole = field_root(path), size_path = field_member(&whole, "size");
    if (!field_object(&p->reading, path, value)) return false;
    json_object *size = json_member(value, "size");
    if (!field_members_known(&p->reading, path, value, known, COUNT(known))) return false;
    if (size && (!field_object(&p->reading, size_path.text, size) ||
                 !field_members_known(&p->reading, size_path.text, size, edges, COUNT(edges)) ||
                 !read_pixels(p, &size_path, size, "shortest_edge", &p->budget.min_pixels) ||
                 !read_pixels(p, &size_path, size, "longest_edge", &p->budget.max_pixels)))
        return false;
    if (!read_pixels(p, &whole, value, "min_pixels", &p->budget.min_pixels) ||
        !read_pixels(p, &whole, value, "max_pixels", &p->budget.max_pixels))
        return false;
    return !p->budget.max_pixels || p->budget.min_pixels <= p->budget.max_pixels ||
           api_fail_value(p->reading.error, path, "%s: min_pixels is larger than max_pixels", path);
}

/* ---- unsupported fields ---- */

bool accept_field(struct api_parser *p, const char *path, json_object *value)
{
    (void)p;
    (void)path;
    (void)value;
    return true;
}

bool refuse_field(struct api_parser *p, const char *path, json_object *value)
{
    if (field_is_neutral(value)) return true;
    api_fail(p->reading.error, path, "%s is not supported; leave it out", path);
    p->reading.error->code = API_ERROR_UNSUPPORTED;
    return false;
}

bool only_true(struct api_parser *p, const char *path, json_object *value)
{
    bool given;
    if (!field_bool(&p->reading, path, value, &given)) return false;
    return given ||
           api_fail(p->reading.error, path, "%s false is not supported; leave it out", path);
}
