/* SPDX-License-Identifier: Apache-2.0 */
/* Routes that count and spell tokens, and generate none. */
#include "server/api/openai_chat/api_routes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/api/openai_chat/api_completion.h"
#include "server/api/common/api_fields.h"

/* ---- /tokenize ---- */

static void reply_tokens(struct completion *a, struct exchange *x, const int *ids, size_t n)
{
    struct buf out = buf_with_max(EY_MAX_RESPONSE_BYTES);
    buf_printf(&out, "{\"count\":%zu,\"max_model_len\":%d,\"tokens\":", n,
               ey_engine_describe(a->engine).max_model_len);
    reply_add_ids(&out, ids, n);
    buf_add_text(&out, ",\"token_strs\":");
    if (!a->request.token_strings) buf_add_text(&out, "null");
    for (size_t i = 0; a->request.token_strings && i < n; i++) {
        const char *text = ey_token_text(a->engine, ids[i]);
        buf_add_text(&out, i ? "," : "[");
        json_dump_string(&out, text, strlen(text));
    }
    if (a->request.token_strings) buf_add_text(&out, n ? "]" : "[]");
    buf_add_text(&out, "}");
    exchange_reply(x, 200, "application/json", &out);
    buf_free(&out);
}

/* The engine refuses ids of image tokens; it looks at as many at a time as an answer's prompt
 * may have. */
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

/* What is too long to be answered can still be counted. */
static bool tokenize_long(struct completion *a, struct exchange *x, const struct api_prompt *prompt)
{
    int *ids = NULL;
    size_t n;
    ey_err e;
    bool ok = ey_tokenize(a->engine, prompt->text, prompt->n_text, true, &ids, &n, &e) &&
              check_token_ids(a->engine, ids, n, &e);
    if (ok) reply_tokens(a, x, ids, n);
    free(ids);
    return ok || api_fail_engine(&a->error, a->engine, "prompt", &e);
}

static bool reply_tokenized(struct completion *a, struct exchange *x)
{
    const struct api_prompt *given = a->request.n_prompts ? a->request.prompts : NULL;
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
    buf_add_text(&out, "{\"prompt\":");
    json_dump_string(&out, text, n);
    buf_add_text(&out, "}");
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
    ey_err e;
    char param[API_PARAM_BYTES] = "";
    if (!ey_prompt_prepare(a->engine, &a->request.request, &prompt, &e)) {
        api_image_param(param, &a->request.request, &e);
        return api_fail_engine(&a->error, a->engine, param, &e);
    }
    ey_prompt_info info = ey_prompt_describe(prompt);
    buf_add_text(&out, "{\"object\":\"chat.completion.render\",\"model\":");
    json_dump_string(&out, a->reply.model, strlen(a->reply.model));
    buf_printf(&out,
               ",\"prompt_tokens\":%zu,\"image_tokens\":%d,\"kv_bytes\":%" PRIu64
               ",\"max_model_len\":%d,\"images\":",
               info.n_ids, info.image_tokens, info.kv_bytes,
               ey_engine_describe(a->engine).max_model_len);
    reply_add_images(&out, info.images, info.n_images);
    buf_add_text(&out, ",\"prompt_token_ids\":");
    reply_add_ids(&out, info.ids, info.n_ids);
    buf_add_text(&out, "}");
    ey_prompt_free(&prompt);
    exchange_reply(x, 200, "application/json", &out);
    buf_free(&out);
    return true;
}

/* ---- routes ---- */

static void run_tokenize_route(struct server *server, struct exchange *x, enum api_kind kind,
                               bool (*reply)(struct completion *a, struct exchange *x))
{
    struct completion *a = completion_open(server, x, kind);
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

void route_render(struct server *server, struct exchange *x)
{
    run_tokenize_route(server, x, API_CHAT, reply_rendered);
}
