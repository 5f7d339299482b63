/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet extract IMAGE... --schema FILE: one load, and from each image the fields of a JSON
 * schema as a line of JSON. */
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "cli/output/answer_json.h"
#include "cli/commands/commands.h"
#include "cli/commands/image_batch.h"
#include "eyelet/tasks.h"

enum { SHOWN_BYTES = 200 }; /* of an answer that is no JSON */

static bool extract_check_arguments(const struct options *o, ey_err *e)
{
    static const char example[] = "eyelet extract invoice.jpg --schema invoice.json";
    bool reads_stdin = o->schema && strcmp(o->schema, "-") == 0;
    if (!o->n_args) return ey_fail(e, EY_BAD_REQUEST, "extract needs an image: %s", example);
    if (!o->schema)
        return ey_fail(e, EY_BAD_REQUEST, "extract needs a JSON schema of what to look for: %s",
                       example);
    for (size_t i = 0; i < o->n_args; i++)
        if (reads_stdin && strcmp(o->args[i], "-") == 0)
            return ey_fail(e, EY_BAD_REQUEST,
                           "- (standard input) can be an image or the schema, not both");
    return (!o->prompt || input_check_text(o->prompt, strlen(o->prompt), "--prompt", e)) &&
           input_check_images(o->args, o->n_args, "extract", e);
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

/* Our engine writes nothing else; a server may not know what a schema is. */
static bool check_json(const ey_answer *answer, ey_err *e)
{
    json_object *value = json_parse(answer->text, answer->n_text, "the answer", EY_BAD_MODEL, NULL);
    json_object_put(value);
    if (value || strcmp(answer->text, "null") == 0) return true;
    return ey_fail(e, EY_BAD_MODEL,
                   "the answer is no JSON, so the server does not keep to schemas: \"%.*s\"",
                   SHOWN_BYTES, answer->text);
}

/* On one line: line ends are white space between values, never inside of a string. */
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

static bool extract_print(struct cli_engine *s, const struct input *image, const ey_answer *answer,
                          double load_seconds, ey_err *e)
{
    struct buf line = buf_with_max(MAX_JSON_LINE);
    if (answer->finish_reason == EY_FINISH_LENGTH) return fail_incomplete(s, answer, e);
    if (!check_json(answer, e)) return false;
    struct json_writer w = batch_open_json_line(&line, image->name);
    json_write_key(&w, "data");
    write_data(&w, answer);
    if (s->options->json) answer_add_usage_and_timings(&w, answer, load_seconds);
    json_close_object(&w);
    batch_print_line(s, &line);
    return true;
}

int cmd_extract(const struct options *o)
{
    ey_err e;
    struct cli_response_format format = {0};
    char *made = NULL;
    bool ok = extract_check_arguments(o, &e) &&
              response_format_open_schema(&format, o->schema, &e) &&
              (o->prompt || ey_extract_prompt(&made, format.text, strlen(format.text), &e));
    const struct image_batch batch = {.prompt = o->prompt ? o->prompt : made,
                                      .format = &format,
                                      .greedy = true,
                                      .json = true,
                                      .print = extract_print};
    int status = ok ? image_batch_run(o, &batch) : term_complain(&e);
    response_format_close(&format);
    ey_free(made);
    return status;
}
