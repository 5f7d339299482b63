/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/template_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { MAX_TEMPLATE_FILE_BYTES = 1 << 20 };

/* Returns chat_template: a string, or the default one of a list of {"name", "template"}. */
static json_object *template_member(const json_object *file)
{
    json_object *value = json_member(file, "chat_template");
    for (size_t i = 0;
         json_object_is_type(value, json_type_array) && i < json_object_array_length(value); i++) {
        json_object *entry = json_object_array_get_idx(value, i),
                    *name = json_member_of_type(entry, "name", json_type_string);
        if (name && strcmp(json_object_get_string(name), "default") == 0)
            return json_member_of_type(entry, "template", json_type_string);
    }
    return json_object_is_type(value, json_type_string) ? value : NULL;
}

static bool find_in_json(struct template_file *out, struct checkpoint *ckpt, const char *name)
{
    const json_object *file;
    if (!checkpoint_json(ckpt, name, &file, NULL))
        return false; /* a damaged file counts as absent: only the template is wanted from it */
    json_object *value = template_member(file);
    if (!value) return false;
    out->file = name;
    out->text = strdup(json_object_get_string(value));
    out->n = out->text ? strlen(out->text) : 0;
    return out->text;
}

static bool find_in_text(struct template_file *out, const struct checkpoint *ckpt, const char *name)
{
    char path[EY_MAX_PATH];
    out->file = name;
    return !checkpoint_is_gguf(ckpt) && path_join(path, checkpoint_directory(ckpt), name, NULL) &&
           path_is_file(path) &&
           file_read_regular(&out->text, &out->n, path, MAX_TEMPLATE_FILE_BYTES, &out->error);
}

/* Looks in the order that transformers uses. */
bool template_file_find(struct template_file *out, struct checkpoint *ckpt)
{
    return find_in_text(out, ckpt, "chat_template.jinja") ||
           find_in_json(out, ckpt, "chat_template.json") ||
           find_in_json(out, ckpt, "tokenizer_config.json");
}

bool template_file_has(struct checkpoint *ckpt, const char *words)
{
    struct template_file t = {0};
    const bool found = template_file_find(&t, ckpt) && t.text && strstr(t.text, words);
    free(t.text);
    return found;
}
