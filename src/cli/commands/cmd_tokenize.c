/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet tokenize TEXT prints the model's token ids and their texts. */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "cli/output/answer_json.h"
#include "cli/commands/commands.h"
#include "cli/cli_engine.h"

static bool tokenize_check_arguments(const struct options *o, ey_err *e)
{
    if (o->n_args == 1) return true;
    return ey_fail(e, EY_BAD_REQUEST,
                   "tokenize takes one text, not %zu; put it in quotation marks, or send it on "
                   "standard input: eyelet tokenize -",
                   o->n_args);
}

static bool tokenize_read_text(struct input *text, const char *argument, ey_err *e)
{
    if (strcmp(argument, "-") == 0) {
        if (!input_read(text, "-", EY_MAX_TEXT_BYTES, e)) return false;
        return input_check_text(text->bytes, text->size, "standard input", e);
    }
    *text = (struct input){.name = argument, .bytes = strdup(argument), .size = strlen(argument)};
    return text->bytes ? input_check_text(text->bytes, text->size, "the text", e)
                       : ey_fail_memory(e, "the text", text->size);
}

static void write_token(struct json_writer *w, const ey_engine *engine, int id)
{
    json_open_object(w);
    json_add_int(w, "id", id);
    json_add_string(w, "text", ey_token_text(engine, id));
    json_close_object(w);
}

/* Appends a line for a token. Quotes the text, because it may contain a line end. */
static void add_token_line(struct buf *out, const ey_engine *engine, int id)
{
    const char *text = ey_token_text(engine, id);
    buf_printf(out, "%d\t", id);
    json_dump_string(out, text, strlen(text));
    buf_add_text(out, "\n");
}

static void print_tokens(struct cli_engine *s, const int *ids, size_t n)
{
    bool json = s->options->json;
    struct buf out = buf_with_max((size_t)1 << 20);
    struct json_writer w = json_write_to(&out, JSON_SPACED);
    if (json) json_open_array(&w);
    for (size_t i = 0; i < n && !s->out.closed; i++) {
        if (json)
            write_token(&w, s->engine, ids[i]);
        else
            add_token_line(&out, s->engine, ids[i]);
        if (out.size < 65536) continue;
        term_write(&s->out, out.data, out.size);
        buf_clear(&out);
    }
    if (json) {
        json_close_array(&w);
        buf_add_text(&out, "\n");
    }
    if (out.size) term_write(&s->out, out.data, out.size);
    buf_free(&out);
}

static bool tokenize_run(struct cli_engine *s, ey_err *e)
{
    struct input text = {0};
    int *ids = NULL;
    size_t n = 0;
    bool ok = tokenize_read_text(&text, s->options->args[0], e) && cli_engine_load(s, e) &&
              ey_tokenize(s->engine, text.bytes, text.size, s->options->parse_special, &ids, &n, e);
    if (ok) print_tokens(s, ids, n);
    free(ids);
    input_free(&text);
    return ok;
}

int cmd_tokenize(const struct options *o)
{
    ey_err e;
    struct cli_engine cli;
    if (!tokenize_check_arguments(o, &e)) return term_complain(&e);
    cli_engine_init(&cli, o);
    int status = tokenize_run(&cli, &e) ? term_finish(&cli.out, 0) : term_complain(&e);
    cli_engine_close(&cli);
    return status;
}
