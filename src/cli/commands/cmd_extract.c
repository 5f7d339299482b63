/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet extract IMAGE... --schema FILE prints a line of JSON with the schema's fields for each
 * image. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "cli/commands/commands.h"
#include "cli/batch/image_batch.h"
#include "cli/batch/batch_output.h"
#include "eyelet/tasks.h"

enum {
    MAX_JSON_LINE = 64 << 20,
    SHOWN_BYTES = 200 /* of an answer that is not JSON */
};

static bool extract_check_arguments(const struct options *o, ey_err *e)
{
    static const char example[] = "eyelet extract invoice.jpg --schema invoice.json";
    bool reads_stdin = o->schema && strcmp(o->schema, "-") == 0;
    if (!o->n_args && (reads_stdin || !input_stdin_is_sent()))
        return ey_fail(e, EY_BAD_REQUEST, "extract needs an image: %s", example);
    if (!o->schema == !o->fields)
        return ey_fail(
            e, EY_BAD_REQUEST,
            "extract needs either --fields \"shop, date, total:number\" or a JSON schema: %s",
            example);
    for (size_t i = 0; i < o->n_args; i++)
        if (reads_stdin && strcmp(o->args[i], "-") == 0)
            return ey_fail(e, EY_BAD_REQUEST,
                           "- (standard input) can be an image or the schema, not both");
    return !o->prompt || input_check_text(o->prompt, strlen(o->prompt), "--prompt", e);
}

/* ---- a line ---- */

static bool fail_incomplete(const struct cli_engine *s, const ey_answer *answer, ey_err *e)
{
    bool by_option = answer->completion_tokens >= s->options->max_tokens;
    return ey_fail(e, EY_TOO_LONG,
                   "the answer was cut after %d tokens and is not complete; use a larger %s",
                   answer->completion_tokens,
                   by_option   ? "--max-tokens"
                   : s->remote ? "--max-model-len of the server"
                               : "--max-model-len");
}

/* Fails if the answer is not JSON. Our engine always writes JSON; a server may ignore the schema.
 */
static bool check_json(const ey_answer *answer, ey_err *e)
{
    json_object *value = json_parse(answer->text, answer->n_text, "the answer", EY_BAD_MODEL, NULL);
    json_object_put(value);
    if (value || strcmp(answer->text, "null") == 0) return true;
    return ey_fail(e, EY_BAD_MODEL,
                   "the answer is not JSON, so the server seems to ignore schemas: \"%.*s\"",
                   SHOWN_BYTES, answer->text);
}

/* Writes the data on one line. Replaces line ends with spaces. Strings have none, because JSON
 * escapes them. */
static void write_data(struct json_writer *w, const ey_answer *answer)
{
    struct buf data = buf_with_max(MAX_JSON_LINE);
    buf_add(&data, answer->text, answer->n_text);
    for (size_t i = 0; i < data.size; i++)
        if (data.data[i] == '\n' || data.data[i] == '\r') data.data[i] = ' ';
    json_write_raw(w, data.data, data.size);
    w->out->failed |= data.failed;
    buf_free(&data);
}

static bool extract_check(const struct cli_engine *s, const ey_answer *answer, ey_err *e)
{
    if (answer->finish_reason == EY_FINISH_LENGTH) return fail_incomplete(s, answer, e);
    return check_json(answer, e);
}

static bool extract_add_json(struct json_writer *w, const struct batch_answer *a, ey_err *e)
{
    (void)e;
    json_write_key(w, "data");
    write_data(w, a->answer);
    return true;
}

/* ---- CSV ---- */

static json_object *properties_of(json_object *schema)
{
    return json_member_of_type(schema, "properties", json_type_object);
}

/* Returns the names of the schema's properties as a CSV header, which the caller frees. Returns
 * NULL if the schema has none: the whole answer is then one cell. */
static char *columns_of_schema(const char *schema)
{
    struct buf line = buf_with_max(MAX_JSON_LINE);
    json_object *root = json_parse(schema, strlen(schema), "the schema", EY_BAD_REQUEST, NULL);
    if (properties_of(root)) {
        json_object_object_foreach(properties_of(root), name, property)
        {
            (void)property;
            if (line.size) buf_add_text(&line, ",");
            batch_add_cell(&line, name, strlen(name));
        }
        buf_add(&line, "", 1);
    }
    json_object_put(root);
    if (line.failed) buf_free(&line);
    return line.data;
}

/* Appends a value as a cell: a string without quotes, null as an empty cell, anything else as JSON.
 */
static void add_value_cell(struct buf *line, json_object *value)
{
    const char *text = !value ? ""
                       : json_object_is_type(value, json_type_string)
                           ? json_object_get_string(value)
                           : json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN);
    batch_add_cell(line, text ? text : "", text ? strlen(text) : 0);
}

static bool extract_add_csv(struct buf *line, const struct batch_answer *a, ey_err *e)
{
    const char *text = a->batch->format->text;
    json_object *schema = json_parse(text, strlen(text), "the schema", EY_BAD_REQUEST, e);
    json_object *data = json_parse(a->answer->text, a->answer->n_text, "", EY_BAD_REQUEST, NULL);
    batch_add_cell(line, a->image->name, strlen(a->image->name));
    if (!properties_of(schema)) {
        buf_add_text(line, ",");
        batch_add_cell(line, a->answer->text, a->answer->n_text);
    } else {
        json_object_object_foreach(properties_of(schema), name, property)
        {
            (void)property;
            buf_add_text(line, ",");
            add_value_cell(line, json_member(data, name));
        }
    }
    buf_add_text(line, "\n");
    json_object_put(data);
    json_object_put(schema);
    return schema != NULL;
}

int cmd_extract(const struct options *o)
{
    ey_err e;
    struct cli_response_format format = {0};
    char *made = NULL, *columns = NULL;
    bool ok = extract_check_arguments(o, &e) &&
              (o->fields ? response_format_open_fields(&format, o->fields, &e)
                         : response_format_open_schema(&format, o->schema, &e)) &&
              (o->prompt || ey_extract_prompt(&made, format.text, strlen(format.text), &e));
    if (ok) columns = columns_of_schema(format.text);
    const struct image_batch batch = {.command = "extract",
                                      .prompt = o->prompt ? o->prompt : made,
                                      .format = &format,
                                      .greedy = true,
                                      .field = "data",
                                      .sidecar = "json",
                                      .lines_only = true,
                                      .check = extract_check,
                                      .add_json = extract_add_json,
                                      .csv_columns = columns,
                                      .add_csv = extract_add_csv};
    int status = !ok         ? term_complain(&e)
                 : o->n_args ? image_batch_run(o, o->args, o->n_args, &batch)
                             : image_batch_run(o, input_from_stdin, 1, &batch);
    response_format_close(&format);
    ey_free(made);
    free(columns);
    return status;
}
