/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a request: the memory of its JSON, reading by the dialect, and when each part is
 * freed. */
#include "server/api/common/api_request.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "server/api/common/api_charge.h"
#include "server/api/common/api_dialect.h"
#include "server/api/common/thinking_fields.h"

struct request_memory {
    struct arena lasting, passing;
    json_object *json;
};

/* ---- before parsing ---- */

/* Returns the byte after the string that opens at text[0]. */
static const char *request_string_end(const char *text, const char *end)
{
    for (text++; text < end;) {
        const char *quote = memchr(text, '"', (size_t)(end - text)), *escape = quote;
        if (!quote) return end;
        while (escape > text && escape[-1] == '\\')
            escape--;
        text = quote + 1;
        if ((quote - escape) % 2 == 0) return text;
    }
    return end;
}

struct json_counts {
    size_t objects, arrays, members, values;
};

/* Counts values without validating them. In invalid JSON it counts at least the values before the
 * error. */
static struct json_counts count_json(const char *body, size_t n)
{
    struct json_counts c = {.values = 1};
    for (const char *at = body, *end = body + n; at < end;) {
        c.objects += *at == '{';
        c.arrays += *at == '[';
        c.members += *at == ':';
        c.values += *at == ',';
        at = *at == '"' ? request_string_end(at, end) : at + 1;
    }
    return c;
}

uint64_t api_json_bytes(const char *body, size_t n)
{
    enum { OBJECT = 840, ARRAY = 168, MEMBER = 160, VALUE = 112 };
    struct json_counts c = count_json(body, n);
    return 2 * (uint64_t)n + OBJECT * c.objects + ARRAY * c.arrays + MEMBER * c.members +
           VALUE * c.values;
}

/* Limits the number of values before parsing: objects and arrays take far more memory than their
 * bytes. */
static bool check_json_size(struct api_error *error, const char *body, size_t n)
{
    struct json_counts c = count_json(body, n);
    size_t containers = c.objects + c.arrays;
    if (containers > EY_MAX_REQUEST_CONTAINERS)
        return api_fail_value(error, "", "the request has %zu objects and arrays; the limit is %d",
                              containers, EY_MAX_REQUEST_CONTAINERS);
    if (c.values > EY_MAX_REQUEST_VALUES)
        return api_fail_value(error, "", "the request has %zu values; the limit is %d", c.values,
                              EY_MAX_REQUEST_VALUES);
    return true;
}

static bool parse_json(struct api_request *out, const char *body, size_t n, struct api_error *error)
{
    struct request_memory *memory = out->memory;
    ey_err e;
    if (!check_json_size(error, body, n)) return false;
    memory->json = json_parse(body, n, "the request", EY_BAD_REQUEST, &e);
    if (!memory->json)
        return e.code == EY_NO_MEMORY ? api_fail_memory(error)
                                      : api_fail_value(error, "", "%s", e.text);
    return json_object_is_type(memory->json, json_type_object) ||
           api_fail_value(error, "", "the request is not a JSON object");
}

/* ---- fields ---- */

bool api_read_fields(struct api_parser *p, const struct api_field *fields, size_t n)
{
    int kind = 1 << p->reading.out->kind;
    for (size_t i = 0; i < n; i++) {
        json_object *value = fields[i].kinds & kind ? json_member(p->json, fields[i].name) : NULL;
        if (value && !fields[i].read(p, fields[i].name, value)) return false;
    }
    return true;
}

static bool is_known_field(const struct api_field *fields, size_t n, const char *name, int kind)
{
    for (size_t i = 0; i < n; i++)
        if (fields[i].kinds & kind && strcmp(fields[i].name, name) == 0) return true;
    return false;
}

bool api_note_unknown_fields(struct api_parser *p, const struct api_field *fields, size_t n)
{
    int kind = 1 << p->reading.out->kind;
    json_object_object_foreach(p->json, name, value)
    {
        if (value && !is_known_field(fields, n, name, kind) && !field_unknown(&p->reading, name))
            return false;
    }
    return true;
}

/* ---- request ---- */

static struct api_parser make_parser(struct api_request *out, const struct api_limits *limits,
                                     struct api_error *error)
{
    struct request_memory *memory = out->memory;
    return (struct api_parser){.reading = {.out = out,
                                           .limits = limits,
                                           .error = error,
                                           .lasting = &memory->lasting,
                                           .passing = &memory->passing},
                               .json = memory->json};
}

bool api_read_model_name(struct api_request *out, const char *field, struct api_error *error)
{
    struct api_parser p = make_parser(out, NULL, error);
    json_object *value = json_member(p.json, field);
    if (!value || field_text_is(value, "")) return true;
    return field_name(&p.reading, field, value, EY_MAX_PATH, p.reading.lasting, &out->model);
}

bool api_open(struct api_request *out, const struct api_dialect *dialect, const char *body,
              size_t n, struct api_error *error)
{
    *out = (struct api_request){.dialect = dialect,
                                .kind = dialect->kind,
                                .model = "",
                                .n = 1,
                                .memory = calloc(1, sizeof(struct request_memory))};
    out->unknown = buf_with_max(EY_MAX_UNKNOWN_FIELD_BYTES);
    out->notes = buf_with_max(EY_MAX_UNKNOWN_FIELD_BYTES);
    if (!out->memory) return api_fail_memory(error);
    return parse_json(out, body, n, error) && api_read_model_name(out, "model", error);
}

json_object *api_request_json(const struct api_request *request)
{
    const struct request_memory *memory = request->memory;
    return memory->json;
}

bool api_read(struct api_request *out, const struct api_limits *limits, struct api_error *error)
{
    struct api_parser p = make_parser(out, limits, error);
    out->request = limits->defaults;
    return out->dialect->read(&p) && thinking_settle(&p) &&
           format_compile(&p.reading, &p.format, &p.tools) &&
           images_load(&p.reading, &p.images, &p.budget);
}

bool api_parse(struct api_request *out, const struct api_dialect *dialect, const char *body,
               size_t n, const struct api_limits *limits, struct api_error *error)
{
    return api_open(out, dialect, body, n, error) && api_read(out, limits, error);
}

/* ---- dropping old messages ---- */

static bool has_role(const ey_message *message, const char *role)
{
    return strcmp(message->role, role) == 0;
}

/* Returns the index of the last message. If it is a tool result, returns the index of the message
 * with the call. */
static size_t last_exchange(const ey_message *messages, size_t n)
{
    size_t at = n - 1;
    while (at && has_role(&messages[at], "tool"))
        at--;
    return at;
}

static size_t count_message_images(const ey_message *message)
{
    size_t images = 0;
    for (size_t i = 0; i < message->n_parts; i++)
        images += message->parts[i].type == EY_PART_IMAGE;
    return images;
}

size_t api_request_drop_oldest(struct api_request *request, size_t wanted)
{
    ey_message *messages =
        (ey_message *)(uintptr_t)request->request.messages; /* owned by this request */
    size_t n = request->request.n_messages, kept = 0, dropped = 0;
    size_t last = n ? last_exchange(messages, n) : 0;
    bool dropping = false;
    for (size_t i = 0; i < n; i++) {
        bool result = has_role(&messages[i], "tool");
        dropping = i < last && !has_role(&messages[i], "system") &&
                   (result ? dropping : dropped < wanted);
        if (dropping) request->n_dropped_images += count_message_images(&messages[i]);
        dropped += dropping;
        if (!dropping) messages[kept++] = messages[i];
    }
    request->request.n_messages = kept;
    return dropped;
}

void api_request_drop_prompts(struct api_request *request)
{
    struct request_memory *memory = request->memory;
    for (size_t i = 0; i < request->n_media; i++)
        media_free(&request->media[i]);
    request->media = NULL;
    request->n_media = 0;
    request->image_refs = NULL;
    request->prompts = NULL;
    request->n_prompts = 0;
    request->request.messages = NULL;
    request->request.n_messages = 0;
    request->request.tools = NULL;
    request->request.n_tools = 0;
    request->request.text = NULL;
    request->request.ids = NULL;
    if (!memory) return;
    arena_free(&memory->passing);
    json_object_put(memory->json);
    memory->json = NULL;
}

void api_request_free(struct api_request *request)
{
    struct request_memory *memory = request->memory;
    api_request_drop_prompts(request);
    ey_grammar_free(&request->request.grammar);
    api_charge_keep(&request->grammar, 0);
    buf_free(&request->unknown);
    buf_free(&request->notes);
    if (memory) arena_free(&memory->lasting);
    free(memory);
    *request = (struct api_request){0};
}
