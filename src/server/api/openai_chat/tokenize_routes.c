/* SPDX-License-Identifier: Apache-2.0 */
/* Routes that count and convert tokens without generating. */
#include "server/api/openai_chat/api_routes.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/json_writer.h"
#include "server/api/common/completion.h"
#include "server/api/openai_chat/api_reply.h"
#include "server/api/openai_chat/openai_dialect.h"

/* ---- /tokenize ---- */

/* Writes the tokens as llama.cpp does for with_pieces. */
static void write_pieces(struct json_writer *w, const ey_engine *engine, const int *ids, size_t n)
{
    json_open_array(w);
    for (size_t i = 0; i < n; i++) {
        json_open_object(w);
        json_add_int(w, "id", ids[i]);
        json_add_string(w, "piece", ey_token_text(engine, ids[i]));
        json_close_object(w);
    }
    json_close_array(w);
}

static void write_token_texts(struct json_writer *w, const ey_engine *engine, const int *ids,
                              size_t n)
{
    json_open_array(w);
    for (size_t i = 0; i < n; i++)
        json_write_string(w, ey_token_text(engine, ids[i]));
    json_close_array(w);
}

static void reply_tokens(struct completion *a, struct exchange *x, const int *ids, size_t n)
{
    struct buf out = buf_with_max(EY_MAX_RESPONSE_BYTES);
    struct json_writer w = json_write_to(&out, JSON_COMPACT);
    json_open_object(&w);
    json_add_uint(&w, "count", n);
    json_add_int(&w, "max_model_len", ey_engine_describe(a->engine).max_model_len);
    json_write_key(&w, "tokens");
    if (a->request.token_pieces)
        write_pieces(&w, a->engine, ids, n);
    else
        reply_write_ids(&w, ids, n);
    json_write_key(&w, "token_strs");
    if (a->request.token_strings)
        write_token_texts(&w, a->engine, ids, n);
    else
        json_write_null(&w);
    json_close_object(&w);
    exchange_reply(x, 200, "application/json", &out);
    buf_free(&out);
}

/* Checks that the engine accepts the ids: it refuses image tokens. The ids are checked in pieces
 * that are short enough for a prompt. */
static bool check_token_ids(ey_engine *engine, const int *ids, size_t n, ey_err *e)
{
    size_t most = (size_t)ey_engine_describe(engine).max_model_len - 1;
    ey_request request = ey_request_defaults();
    for (size_t at = 0; at < n; at += request.n_ids) {
        ey_prompt *prompt;
        request.ids = ids + at;
        request.n_ids = n - at < most ? n - at : most;
        if (!ey_prompt_prepare(engine, &request, &prompt, e)) return false;
        ey_prompt_free(&prompt);
    }
    return true;
}

/* Inserts the BOS token if prompts of this request have one. An empty prompt is prepared to find
 * it: the BOS token is its only token, and the engine refuses the prompt if there is none. */
static bool insert_bos(struct completion *a, int **ids, size_t *n, ey_err *e)
{
    ey_request request = a->request.request;
    ey_prompt *prompt;
    request.text = "";
    request.n_text = 0;
    if (!request.add_bos) return true;
    if (!ey_prompt_prepare(a->engine, &request, &prompt, e)) return e->code == EY_BAD_REQUEST;
    int *longer = realloc(*ids, (*n + 1) * sizeof(*longer));
    if (longer) {
        memmove(longer + 1, longer, *n * sizeof(*longer));
        longer[0] = ey_prompt_describe(prompt).ids[0];
        *ids = longer;
        ++*n;
    }
    ey_prompt_free(&prompt);
    return longer || ey_fail_memory(e, "token ids", *n * sizeof(*longer));
}

/* Counts the tokens of a text that is too long for a prompt. */
static bool tokenize_long(struct completion *a, struct exchange *x, const struct api_prompt *prompt)
{
    int *ids = NULL;
    size_t n;
    ey_err e;
    bool ok = ey_tokenize(a->engine, prompt->text, prompt->n_text, true, &ids, &n, &e) &&
              check_token_ids(a->engine, ids, n, &e) && insert_bos(a, &ids, &n, &e);
    if (ok) reply_tokens(a, x, ids, n);
    free(ids);
    return ok || api_fail_engine(&a->error, a->engine, "prompt", &e);
}

/* Charges the memory that the tokenizer, the ids and their JSON need for n bytes of text, which
 * have at most n tokens. Small texts are free. On an error, answers the exchange and returns
 * false. */
static bool charge_tokens(struct exchange *x, size_t n)
{
    enum { TOKEN_BYTES = 24, FREE_BYTES = 64 << 10 };
    uint64_t bytes = (uint64_t)n * TOKEN_BYTES;
    return bytes <= FREE_BYTES || exchange_charge(x, bytes);
}

static bool reply_tokenized(struct completion *a, struct exchange *x)
{
    const struct api_prompt *given = a->request.n_prompts ? a->request.prompts : NULL;
    if (given && !charge_tokens(x, given->n_text)) return true;
    ey_request request = a->request.request;
    ey_prompt *prompt;
    ey_err e;
    if (given && !given->n_text) return reply_tokens(a, x, NULL, 0), true;
    if (given) {
        request.text = given->text;
        request.n_text = given->n_text;
    }
    if (!ey_prompt_prepare(a->engine, &request, &prompt, &e)) {
        if (given && e.code == EY_TOO_LONG) return tokenize_long(a, x, given);
        return api_fail_engine(&a->error, a->engine, given ? "prompt" : "", &e);
    }
    ey_prompt_info info = ey_prompt_describe(prompt);
    reply_tokens(a, x, info.ids, info.n_ids);
    ey_prompt_free(&prompt);
    return true;
}

/* ---- /detokenize ---- */

static bool reply_detokenized(struct completion *a, struct exchange *x)
{
    struct buf out = buf_with_max(EY_MAX_RESPONSE_BYTES);
    char *text;
    size_t n;
    ey_err e;
    if (!ey_detokenize(a->engine, a->request.prompts->ids, a->request.prompts->n_ids, &text, &n,
                       &e))
        return api_fail_engine(&a->error, a->engine, "tokens", &e);
    if (!charge_tokens(x, n)) return free(text), true;
    struct json_writer w = json_write_to(&out, JSON_COMPACT);
    json_open_object(&w);
    json_write_key(&w, "prompt");
    json_write_text(&w, text, n);
    json_write_key(&w, "content"); /* llama.cpp's name */
    json_write_text(&w, text, n);
    json_close_object(&w);
    free(text);
    exchange_reply(x, 200, "application/json", &out);
    buf_free(&out);
    return true;
}

/* ---- /v1/chat/completions/render ---- */

static bool reply_rendered(struct completion *a, struct exchange *x)
{
    struct buf out = buf_with_max(EY_MAX_RESPONSE_BYTES);
    ey_prompt *prompt;
    if (!completion_prepare_prompt(a, &prompt)) return false;
    ey_prompt_info info = ey_prompt_describe(prompt);
    struct json_writer w = json_write_to(&out, JSON_COMPACT);
    json_open_object(&w);
    json_add_string(&w, "object", "chat.completion.render");
    json_add_string(&w, "model", a->reply.model);
    json_add_uint(&w, "prompt_tokens", info.n_ids);
    json_add_int(&w, "image_tokens", info.image_tokens);
    json_add_uint(&w, "kv_bytes", info.kv_bytes);
    json_add_int(&w, "max_model_len", ey_engine_describe(a->engine).max_model_len);
    json_write_key(&w, "images");
    reply_write_images(&w, info.images, info.n_images);
    json_write_key(&w, "prompt_token_ids");
    reply_write_ids(&w, info.ids, info.n_ids);
    json_close_object(&w);
    ey_prompt_free(&prompt);
    exchange_reply(x, 200, "application/json", &out);
    buf_free(&out);
    return true;
}

/* ---- llama.cpp's forms ---- */

/* Whether the text is one of the special tokens, which the detokenizer drops. */
static bool is_special_text(const char *text)
{
    size_t n = strlen(text);
    return n > 4 && strncmp(text, "<|", 2) == 0 && strcmp(text + n - 2, "|>") == 0;
}

static bool add_detokenized(struct buf *out, ey_engine *engine, const int *ids, size_t n, ey_err *e)
{
    char *text;
    size_t n_text;
    if (!n) return true;
    if (!ey_detokenize(engine, ids, n, &text, &n_text, e)) return false;
    bool ok = buf_add(out, text, n_text) || ey_fail_memory(e, "the prompt", n_text);
    free(text);
    return ok;
}

/* Writes the prompt's text, with special tokens spelled out. */
static bool spell_prompt(struct buf *out, ey_engine *engine, const int *ids, size_t n, ey_err *e)
{
    size_t from = 0;
    for (size_t i = 0; i < n; i++) {
        const char *text = ey_token_text(engine, ids[i]);
        if (!is_special_text(text)) continue;
        if (!add_detokenized(out, engine, ids + from, i - from, e)) return false;
        if (!buf_add_text(out, text)) return ey_fail_memory(e, "the prompt", out->size);
        from = i + 1;
    }
    return add_detokenized(out, engine, ids + from, n - from, e);
}

static bool reply_template(struct completion *a, struct exchange *x)
{
    struct buf out = buf_with_max(EY_MAX_RESPONSE_BYTES),
               text = buf_with_max(EY_MAX_RESPONSE_BYTES);
    ey_prompt *prompt;
    ey_err e;
    if (!completion_prepare_prompt(a, &prompt)) return false;
    ey_prompt_info info = ey_prompt_describe(prompt);
    bool ok = spell_prompt(&text, a->engine, info.ids, info.n_ids, &e);
    ey_prompt_free(&prompt);
    if (ok) {
        struct json_writer w = json_write_to(&out, JSON_COMPACT);
        json_open_object(&w);
        json_write_key(&w, "prompt");
        json_write_text(&w, text.data ? text.data : "", text.size);
        json_close_object(&w);
        exchange_reply(x, 200, "application/json", &out);
    }
    buf_free(&text);
    buf_free(&out);
    return ok || api_fail_engine(&a->error, a->engine, "messages", &e);
}

static bool reply_input_tokens(struct completion *a, struct exchange *x)
{
    return completion_reply_input_tokens(a, x, NULL);
}

/* ---- routes ---- */

static void run_tokenize_route(struct server *server, struct exchange *x, enum openai_kind kind,
                               bool (*reply)(struct completion *a, struct exchange *x))
{
    struct completion *a = completion_open(server, x, &openai_dialects[kind]);
    if (!a) return;
    if (!reply(a, x)) completion_fail(a, x);
    completion_close(a);
}

void route_tokenize(struct server *server, struct exchange *x)
{
    run_tokenize_route(server, x, API_TOKENIZE, reply_tokenized);
}

void route_detokenize(struct server *server, struct exchange *x)
{
    run_tokenize_route(server, x, API_DETOKENIZE, reply_detokenized);
}

void route_apply_template(struct server *server, struct exchange *x)
{
    run_tokenize_route(server, x, API_CHAT, reply_template);
}

void route_input_tokens(struct server *server, struct exchange *x)
{
    run_tokenize_route(server, x, API_CHAT, reply_input_tokens);
}

void route_render(struct server *server, struct exchange *x)
{
    run_tokenize_route(server, x, API_CHAT, reply_rendered);
}
