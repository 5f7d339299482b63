/* SPDX-License-Identifier: Apache-2.0 */
/* The prompts of caption, scene, read, detect and extract. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"
#include "eyelet/tasks.h"

enum {
    MAX_PROMPT = 4096,     /* bytes of a generated prompt; fields that do not fit are left out */
    MAX_DESCRIPTION = 200, /* bytes; longer descriptions are left out */
    FIELD_LEVELS = 3,      /* depth of nested fields that the prompt names */
};

const char *ey_caption_prompt(void)
{
    return "Describe this image.";
}

const char *ey_scene_prompt(void)
{
    return "Describe this image in detail.";
}

/* The wording is from Qwen3-VL's cookbooks (spec 8.2). */
const char *ey_read_prompt(void)
{
    return "Read all the text in the image.";
}

/* ---- detect ---- */

/* Moves the text of `made` to *prompt. */
static bool take_prompt(char **prompt, struct buf *made, ey_err *e)
{
    *prompt = NULL;
    if (!buf_add(made, "", 0)) {
        buf_free(made);
        return ey_fail_memory(e, "the question", MAX_PROMPT);
    }
    *prompt = made->data;
    return true;
}

/* The wording is from Qwen3-VL's cookbooks (spec 8.2); the models were trained on it. */
bool ey_detect_prompt(char **prompt, const char *what, ey_err *e)
{
    struct buf made = buf_with_max(EY_MAX_TEXT_BYTES);
    buf_printf(&made,
               "Locate every instance that belongs to the following categories: '%s'. Report bbox "
               "coordinates in JSON format.",
               what);
    return take_prompt(prompt, &made, e);
}

/* The pattern that every answer must match: Qwen3-VL's grounding format (spec 8.1), in which a code
 * fence and most white space are optional, or a sentence such as "There are no …". The corners may
 * come in either order. */
#define BLANK "\\n?[ \\t]{0,8}"
#define NUMBER "(0|[1-9][0-9]{0,2}|1000)"
#define TEXT "\"([^\"\\\\\\x00-\\x1f]|\\\\[\"\\\\/bfnrt]){0,100}\""
#define BOX "\\[" BLANK NUMBER "(," BLANK NUMBER "){3}" BLANK "\\]"
#define OBJECT \
    "\\{" BLANK "\"bbox_2d\": ?" BOX "," BLANK "\"(label|text_content)\": ?" TEXT BLANK "\\}"
#define LIST "\\[" BLANK "(" OBJECT "(," BLANK OBJECT ")*" BLANK ")?\\]"

const char *ey_detect_pattern(void)
{
    return LIST "|```(json)?\\n" LIST "\\n```|There (is|are) no [^\\n]*";
}

/* ---- extract ---- */

/* Returns the properties of an object, or of an array's items. */
static json_object *fields_of(const json_object *schema)
{
    json_object *items = json_member_of_type(schema, "items", json_type_object);
    return json_member_of_type(items ? items : schema, "properties", json_type_object);
}

/* Appends as many whole fields as fit, as in "total (the sum to be paid), items (name, price)". */
static void add_fields(struct buf *out, json_object *fields, int levels)
{
    const char *separator = "";
    json_object_object_foreach(fields, name, field)
    {
        json_object *text = json_member_of_type(field, "description", json_type_string),
                    *inner = levels > 1 ? fields_of(field) : NULL;
        bool described = text && json_object_get_string_len(text) <= MAX_DESCRIPTION;
        if (out->size + strlen(name) + MAX_DESCRIPTION > MAX_PROMPT) return;
        buf_printf(out, "%s%s", separator, name);
        if (described) buf_printf(out, " (%s)", json_object_get_string(text));
        if (inner && json_object_object_length(inner)) {
            buf_add_text(out, " (");
            add_fields(out, inner, levels - 1);
            buf_add_text(out, ")");
        }
        separator = ", ";
    }
}

bool ey_extract_prompt(char **prompt, const char *schema, size_t n, ey_err *e)
{
    *prompt = NULL;
    if (n > EY_MAX_SCHEMA_BYTES)
        return ey_fail(e, EY_BAD_REQUEST, "the schema has %zu bytes; the limit is %d", n,
                       (int)EY_MAX_SCHEMA_BYTES);
    json_object *root = json_parse(schema, n, "the schema", EY_BAD_REQUEST, e);
    if (!root) return false;
    struct buf made = buf_with_max(2 * MAX_PROMPT);
    json_object *fields = fields_of(root);
    buf_add_text(&made, "Extract the data in the image as JSON");
    if (fields && json_object_object_length(fields)) {
        buf_add_text(&made, " with these fields: ");
        add_fields(&made, fields, FIELD_LEVELS);
    }
    buf_add_text(&made, ".");
    json_object_put(root);
    return take_prompt(prompt, &made, e);
}
