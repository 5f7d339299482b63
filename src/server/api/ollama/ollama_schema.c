/* SPDX-License-Identifier: Apache-2.0 */
/* Reads "format": "json" or a schema. Unsupported keywords that only narrow a value are dropped,
 * because Ollama ignores them and many schema generators write them. */
#include <string.h>

#include "base/json.h"
#include "server/api/ollama/ollama_dialect.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_among(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

static bool is_narrowing(const char *keyword, json_object *value)
{
    static const char *const dropped[] = {"uniqueItems",
                                          "contains",
                                          "minContains",
                                          "maxContains",
                                          "propertyNames",
                                          "patternProperties",
                                          "minProperties",
                                          "maxProperties",
                                          "not",
                                          "if",
                                          "then",
                                          "else",
                                          "dependentRequired",
                                          "dependentSchemas",
                                          "dependencies",
                                          "unevaluatedItems",
                                          "unevaluatedProperties"};
    static const char *const formats[] = {"date",  "time", "date-time", "duration", "uuid",
                                          "email", "uri",  "hostname",  "ipv4",     "ipv6"};
    if (strcmp(keyword, "format") == 0)
        return !json_object_is_type(value, json_type_string) ||
               !is_among(json_object_get_string(value), formats, COUNT(formats));
    return is_among(keyword, dropped, COUNT(dropped));
}

static bool note_dropped(struct buf *dropped, const char *keyword)
{
    const char *at = dropped->size ? strstr(dropped->data, keyword) : NULL;
    if (at) return true;
    return buf_printf(dropped, "%s%s", dropped->size ? ", " : "", keyword);
}

/* Starts again after each deletion, so that the loop never continues from a deleted entry. */
static bool drop_keywords(json_object *schema, struct buf *dropped)
{
    for (bool again = true; again;) {
        again = false;
        json_object_object_foreach(schema, keyword, value)
        {
            if (!is_narrowing(keyword, value)) continue;
            if (!note_dropped(dropped, keyword)) return false;
            json_object_object_del(schema, keyword);
            again = true;
            break;
        }
    }
    return true;
}

static bool drop_in_all(json_object *container, struct buf *dropped)
{
    if (json_object_is_type(container, json_type_array))
        for (size_t i = 0; i < json_object_array_length(container); i++)
            if (!ollama_drop_narrowing(json_object_array_get_idx(container, i), dropped))
                return false;
    if (!json_object_is_type(container, json_type_object)) return true;
    json_object_object_foreach(container, name, value)
    {
        (void)name;
        if (!ollama_drop_narrowing(value, dropped)) return false;
    }
    return true;
}

/* Recursion is bounded by the request's nesting limit. */
bool ollama_drop_narrowing(json_object *schema, struct buf *dropped)
{
    static const char *const schemas[] = {"items", "additionalProperties", "additionalItems"},
                             *const containers[] = {"properties", "$defs", "definitions", "anyOf",
                                                    "allOf",      "oneOf", "prefixItems"};
    if (json_object_is_type(schema, json_type_array)) return drop_in_all(schema, dropped);
    if (!json_object_is_type(schema, json_type_object)) return true;
    if (!drop_keywords(schema, dropped)) return false;
    for (size_t i = 0; i < COUNT(schemas); i++)
        if (!ollama_drop_narrowing(json_member(schema, schemas[i]), dropped)) return false;
    for (size_t i = 0; i < COUNT(containers); i++)
        if (!drop_in_all(json_member(schema, containers[i]), dropped)) return false;
    return true;
}

static bool read_schema(struct api_parser *p, const char *path, json_object *value)
{
    struct buf dropped = buf_with_max(1024);
    bool ok = ollama_drop_narrowing(value, &dropped);
    if (dropped.size)
        api_note(&p->reading, "keywords of the schema were ignored: %s", dropped.data);
    buf_free(&dropped);
    if (!ok) return api_fail_memory(p->reading.error);
    return format_choose(&p->reading, &p->format, FORMAT_SCHEMA, path, value);
}

bool ollama_read_format(struct api_parser *p, const char *path, json_object *value)
{
    if (field_text_is(value, "")) return true; /* langchaingo sends it if no format is set */
    if (field_text_is(value, "json"))
        return format_choose(&p->reading, &p->format, FORMAT_OBJECT, path, value);
    if (json_object_is_type(value, json_type_object)) return read_schema(p, path, value);
    return api_fail(p->reading.error, path,
                    "invalid format: %.200s; expected \"json\" or a valid JSON Schema object",
                    json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN));
}
