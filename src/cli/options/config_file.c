/* SPDX-License-Identifier: Apache-2.0 */
/* Sets options from the top-level map of a YAML document. libyaml parses it. Booleans, numbers and
 * lists are written as for PyYAML, with which vLLM reads these files. */
#include "cli/options/config_file.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "base/file.h"
#include "base/text/json_reader.h"
#include "base/text/json_writer.h"
#include "cli/options/vllm_flags.h"

enum { MAX_CONFIG_BYTES = 1 << 20, MAX_VALUE_BYTES = 1 << 16, MAX_CONFIG_DEPTH = 8 };

struct config_reader {
    struct options *o;
    enum command_bit command;
    yaml_document_t document;
};

static bool fail_at_line(const struct config_reader *r, size_t line, ey_err *e)
{
    ey_err inner = *e;
    return ey_fail(e, EY_BAD_REQUEST, "%s, line %zu: %s", r->o->config, line + 1, inner.text);
}

/* ---- values ---- */

static const char *scalar_text(const yaml_node_t *node)
{
    return (const char *)node->data.scalar.value;
}

static bool is_plain_scalar(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static bool is_yaml_word(const char *text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcasecmp(text, words[i]) == 0) return true;
    return false;
}

/* Returns 1 or 0, or -1 if the node is not a boolean. */
static int boolean_of(const yaml_node_t *node)
{
    static const char *const yes[] = {"true", "yes", "on"}, *const no[] = {"false", "no", "off"};
    if (!is_plain_scalar(node)) return -1;
    if (is_yaml_word(scalar_text(node), yes, 3)) return 1;
    return is_yaml_word(scalar_text(node), no, 3) ? 0 : -1;
}

static bool is_null(const yaml_node_t *node)
{
    static const char *const nothing[] = {"", "~", "null"};
    return is_plain_scalar(node) && is_yaml_word(scalar_text(node), nothing, 3);
}

/* Returns where the digits at `text` end. */
static const char *after_digits(const char *text)
{
    return text + strspn(text, "0123456789");
}

/* Returns whether the text is a number in JSON. NaN and Infinity, which json_read() accepts, are
 * not. */
static bool is_json_number(const char *text)
{
    struct json_reading reading;
    const char *digits = text + (*text == '-');
    if (after_digits(digits) == digits) return false;
    json_object *value = json_read(&reading, text, strlen(text));
    const bool is_whole = value && reading.end == strlen(text);
    json_object_put(value);
    return is_whole;
}

/* Returns whether the text is a number in YAML but not in JSON: 007 (which is octal), +5, .5 or
 * "1.". */
static bool is_yaml_number(const char *text)
{
    const char *digits = text + (*text == '-' || *text == '+'), *at = after_digits(digits);
    if (digits[0] == '0' && at > digits + 1)
        return !*at && strspn(digits, "01234567") == strlen(digits);
    if (!*at) return at > digits;
    return *at == '.' && !*after_digits(at + 1) && (at > digits || at[1]);
}

static void write_yaml_number(struct json_writer *w, const char *text)
{
    if (strchr(text, '.'))
        json_write_digits(w, strtod(text, NULL), 17);
    else
        json_write_int(w, strtoll(text, NULL, text[strspn(text, "+-")] == '0' ? 8 : 10));
}

static void write_json_scalar(struct json_writer *w, const yaml_node_t *node)
{
    const char *text = scalar_text(node);
    if (boolean_of(node) >= 0)
        json_write_bool(w, boolean_of(node) == 1);
    else if (is_null(node))
        json_write_null(w);
    else if (is_plain_scalar(node) && is_json_number(text))
        json_write_raw(w, text, strlen(text));
    else if (is_plain_scalar(node) && is_yaml_number(text))
        write_yaml_number(w, text);
    else
        json_write_text(w, text, node->data.scalar.length);
}

/* Returns false if the node is nested too deeply or is too long. */
static bool write_json_node(struct json_writer *w, struct config_reader *r, int index, int depth)
{
    yaml_node_t *node = yaml_document_get_node(&r->document, index);
    if (!node || depth > MAX_CONFIG_DEPTH || w->out->failed) return false;
    if (node->type == YAML_SCALAR_NODE) return write_json_scalar(w, node), true;
    if (node->type == YAML_SEQUENCE_NODE) {
        json_open_array(w);
        yaml_node_item_t *item = node->data.sequence.items.start;
        for (; item < node->data.sequence.items.top; item++)
            if (!write_json_node(w, r, *item, depth + 1)) return false;
        json_close_array(w);
        return true;
    }
    json_open_object(w);
    yaml_node_pair_t *pair = node->data.mapping.pairs.start;
    for (; pair < node->data.mapping.pairs.top; pair++) {
        yaml_node_t *key = yaml_document_get_node(&r->document, pair->key);
        if (!key || key->type != YAML_SCALAR_NODE) return false;
        json_write_key(w, scalar_text(key));
        if (!write_json_node(w, r, pair->value, depth + 1)) return false;
    }
    json_close_object(w);
    return true;
}

/* Returns the value as it would be written on the command line, with maps and lists as JSON. The
 * options' memory owns it. */
static const char *config_value(struct config_reader *r, int index, ey_err *e)
{
    yaml_node_t *node = yaml_document_get_node(&r->document, index);
    struct buf text = buf_with_max(MAX_VALUE_BYTES);
    bool ok = true;
    if (node->type == YAML_SCALAR_NODE) {
        ok = strlen(scalar_text(node)) == node->data.scalar.length; /* else it contains a NUL */
        buf_add(&text, scalar_text(node), node->data.scalar.length);
    } else {
        struct json_writer w = json_write_to(&text, JSON_COMPACT);
        ok = write_json_node(&w, r, index, 0);
    }
    ok = ok && !text.failed;
    char *copy = ok ? arena_copy_text(&r->o->memory, text.data ? text.data : "", text.size) : NULL;
    buf_free(&text);
    if (!copy) ey_fail(e, EY_BAD_REQUEST, "the value is too long, nested too deeply, or not text");
    return copy;
}

/* ---- keys ---- */

static bool set_flag(struct config_reader *r, const char *name, const yaml_node_t *value, ey_err *e)
{
    int on = boolean_of(value);
    if (on < 0) return ey_fail(e, EY_BAD_REQUEST, "%s takes true or false", name);
    return !on || options_set(r->o, r->command, name, NULL, e);
}

static bool set_list(struct config_reader *r, const char *name, int index, ey_err *e)
{
    yaml_node_t *node = yaml_document_get_node(&r->document, index);
    if (node->type != YAML_SEQUENCE_NODE) {
        const char *text = config_value(r, index, e);
        return text && options_set(r->o, r->command, name, text, e);
    }
    yaml_node_item_t *item = node->data.sequence.items.start;
    for (; item < node->data.sequence.items.top; item++) {
        const char *text = config_value(r, *item, e);
        if (!text || !options_set(r->o, r->command, name, text, e)) return false;
    }
    return true;
}

/* Ignores an option of vLLM that has no effect here and adds it to the list of ignored options, as
 * on the command line. */
static bool pass_vllm_flag(struct config_reader *r, const char *name, int index, ey_err *e)
{
    yaml_node_t *node = yaml_document_get_node(&r->document, index);
    const char *text = config_value(r, index, e);
    int used = 0, on = boolean_of(node);
    if (!text) return false;
    if (on >= 0) text = on ? "True" : "False";
    size_t n = strlen(name) + strlen(text) + 4;
    char *argument = arena_alloc(&r->o->memory, n);
    if (!argument) return ey_fail_memory(e, "the options", n);
    snprintf(argument, n, "--%s=%s", name, text);
    if (!vllm_flag_ignore(r->o, (char *[]){argument, NULL}, &used, e)) return false;
    return used || options_fail_unknown(r->command, name, e);
}

static bool set_key(struct config_reader *r, const char *name, int value, ey_err *e)
{
    const yaml_node_t *node = yaml_document_get_node(&r->document, value);
    if (name[0] == '-')
        return ey_fail(e, EY_BAD_REQUEST, "write the option without leading dashes here: %s",
                       name + strspn(name, "-"));
    if (strcmp(name, "config") == 0 || strcmp(name, "help") == 0)
        return ey_fail(e, EY_BAD_REQUEST, "%s is accepted on the command line only", name);
    if (is_null(node)) return ey_fail(e, EY_BAD_REQUEST, "%s has no value", name);
    if (options_was_given(r->o, r->command, name)) return true;
    switch (option_shape_of(r->command, name)) {
    case OPTION_UNKNOWN: return pass_vllm_flag(r, name, value, e);
    case OPTION_FLAG: return set_flag(r, name, node, e);
    case OPTION_LIST: return set_list(r, name, value, e);
    case OPTION_VALUE: break;
    }
    const char *text = config_value(r, value, e);
    return text && options_set(r->o, r->command, name, text, e);
}

static bool same_key(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if (*a != *b && !(strchr("-_", *a) && strchr("-_", *b))) return false;
    return *a == *b;
}

/* Returns the line of an earlier pair with this key, or -1. */
static long line_of_key_before(struct config_reader *r, const yaml_node_t *map,
                               const yaml_node_pair_t *last, const char *name)
{
    for (yaml_node_pair_t *pair = map->data.mapping.pairs.start; pair < last; pair++) {
        const yaml_node_t *key = yaml_document_get_node(&r->document, pair->key);
        if (same_key(scalar_text(key), name)) return (long)key->start_mark.line;
    }
    return -1;
}

static bool set_keys(struct config_reader *r, const yaml_node_t *map, ey_err *e)
{
    if (map->type != YAML_MAPPING_NODE) {
        ey_fail(e, EY_BAD_REQUEST, "the file must consist of lines \"option: value\"");
        return fail_at_line(r, map->start_mark.line, e);
    }
    for (yaml_node_pair_t *pair = map->data.mapping.pairs.start; pair < map->data.mapping.pairs.top;
         pair++) {
        const yaml_node_t *key = yaml_document_get_node(&r->document, pair->key);
        const char *name = key->type == YAML_SCALAR_NODE ? scalar_text(key) : "";
        long before = name[0] ? line_of_key_before(r, map, pair, name) : -1;
        bool ok = name[0] || ey_fail(e, EY_BAD_REQUEST, "the name of an option is missing");
        if (ok && before >= 0)
            ok = ey_fail(e, EY_BAD_REQUEST, "%s is already set in line %ld", name, before + 1);
        if (!ok || !set_key(r, name, pair->value, e))
            return fail_at_line(r, key->start_mark.line, e);
    }
    return true;
}

/* ---- the file ---- */

static bool set_document(struct config_reader *r, yaml_parser_t *parser, ey_err *e)
{
    if (!yaml_parser_load(parser, &r->document)) {
        ey_fail(e, EY_BAD_REQUEST, "the file is not YAML: %s",
                parser->problem ? parser->problem : "no memory");
        return fail_at_line(r, parser->problem_mark.line, e);
    }
    const yaml_node_t *root = yaml_document_get_root_node(&r->document);
    bool ok = !root || set_keys(r, root, e);
    yaml_document_delete(&r->document);
    return ok;
}

bool config_file_apply(struct options *o, enum command_bit command, ey_err *e)
{
    char *text = NULL;
    size_t n = 0;
    yaml_parser_t parser;
    struct config_reader r = {.o = o, .command = command};
    if (!file_read(&text, &n, o->config, MAX_CONFIG_BYTES, e)) return false;
    bool ok = yaml_parser_initialize(&parser) || ey_fail_memory(e, "the file of --config", n);
    if (ok) {
        yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
        ok = set_document(&r, &parser, e);
        yaml_parser_delete(&parser);
    }
    explicit_bzero(text, n); /* it may contain API keys */
    free(text);
    return ok;
}
