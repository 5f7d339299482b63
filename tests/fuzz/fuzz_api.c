/* SPDX-License-Identifier: Apache-2.0 */
/* API requests: parsed values are within their ranges and all their bytes readable, and errors can
 * be sent. The first byte selects the route. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "models/chat/hermes.h"
#include "server/api/anthropic/anthropic_dialect.h"
#include "server/api/llamacpp/llamacpp_dialect.h"
#include "server/api/ollama/ollama_dialect.h"
#include "server/api/openai_chat/openai_dialect.h"
#include "server/api/openai_responses/responses_dialect.h"

enum { VOCABULARY = 1000, IMAGES = 4 };

static void require(bool what)
{
    if (!what) abort();
}

/* Reads all bytes, so that a sanitizer sees invalid ones. */
static void touch(const void *bytes, size_t n)
{
    static volatile unsigned char sink;
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        sink = (unsigned char)(sink + p[i]);
}

static bool within(double value, double lo, double hi)
{
    return value >= lo && value <= hi;
}

static void check_message(const ey_message *m)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    bool known = false;
    for (int i = 0; i < 4; i++)
        known = known || strcmp(m->role, roles[i]) == 0;
    require(known && m->n_parts <= EY_MAX_CONTENT_PARTS && m->n_tool_calls <= EY_MAX_TOOL_CALLS);
    for (size_t i = 0; i < m->n_parts; i++) {
        touch(m->parts[i].bytes, m->parts[i].n_bytes);
        require(m->parts[i].type == EY_PART_TEXT || m->parts[i].n_bytes > 0);
        require(m->parts[i].detail <= EY_DETAIL_NATIVE);
    }
    for (size_t i = 0; i < m->n_tool_calls; i++) {
        require(strlen(m->tool_calls[i].name) > 0);
        touch(m->tool_calls[i].arguments, strlen(m->tool_calls[i].arguments));
    }
}

static void check_prompts(const struct api_request *r)
{
    size_t images = 0;
    for (size_t i = 0; i < r->request.n_messages; i++) {
        check_message(&r->request.messages[i]);
        for (size_t k = 0; k < r->request.messages[i].n_parts; k++)
            images += r->request.messages[i].parts[k].type == EY_PART_IMAGE;
    }
    require(images == r->n_media && images <= IMAGES);
    require(r->n_prompts <= EY_MAX_PROMPTS && (r->n_prompts > 0) != (r->request.n_messages > 0));
    for (size_t i = 0; i < r->n_prompts; i++) {
        if (r->prompts[i].text) touch(r->prompts[i].text, r->prompts[i].n_text);
        for (size_t k = 0; k < r->prompts[i].n_ids; k++)
            require(r->prompts[i].ids[k] >= 0 && r->prompts[i].ids[k] < VOCABULARY);
    }
    for (size_t i = 0; i < r->request.n_tools; i++)
        touch(r->request.tools[i], strlen(r->request.tools[i]));
}

static void check_answer_options(const struct api_request *r)
{
    const ey_request *q = &r->request;
    const ey_sampling *s = &q->sampling;
    require(r->n >= 1 && r->n <= EY_MAX_REQUEST_CHOICES && q->max_tokens >= 0 &&
            q->max_tokens <= EY_MAX_CONTEXT);
    require(q->min_tokens >= 0 && (!q->max_tokens || q->min_tokens <= q->max_tokens));
    require(within((double)s->temperature, 0, 2) && within((double)s->top_p, 0, 1) &&
            within((double)s->min_p, 0, 1));
    require(s->top_k >= 0 && s->top_k < VOCABULARY && s->repetition_penalty > 0 &&
            s->repetition_penalty <= 100);
    require(within((double)s->presence_penalty, -2, 2) &&
            within((double)s->frequency_penalty, -2, 2));
    require(q->n_stop <= EY_MAX_STOP_STRINGS && q->n_stop_ids <= EY_MAX_STOP_IDS &&
            q->n_logit_bias <= EY_MAX_LOGIT_BIAS);
    for (size_t i = 0; i < q->n_stop; i++)
        require(strlen(q->stop[i]) >= 1 && strlen(q->stop[i]) <= EY_MAX_STOP_BYTES);
    for (size_t i = 0; i < q->n_stop_ids; i++)
        require(q->stop_ids[i] >= 0 && q->stop_ids[i] < VOCABULARY);
    for (size_t i = 0; i < q->n_logit_bias; i++)
        require(q->logit_bias[i].id >= 0 && q->logit_bias[i].id < VOCABULARY &&
                within((double)q->logit_bias[i].bias, -100, 100));
    require(q->top_logprobs >= -1 && q->top_logprobs <= EY_MAX_TOP_LOGPROBS &&
            (r->stream || !r->include_usage));
    touch(r->model, strlen(r->model));
}

static void check_header(const struct buf *unknown)
{
    require(unknown->size <= EY_MAX_UNKNOWN_FIELD_BYTES);
    for (size_t i = 0; i < unknown->size; i++)
        require(unknown->data[i] >= ' ' && unknown->data[i] < 0x7f && unknown->data[i] != '"');
}

static void check_error(const struct api_error *error)
{
    require(error->status >= 400 && error->status < 600 && error->type[0] && error->message[0]);
    require(utf8_valid(error->message, strlen(error->message)));
}

static const struct api_dialect *dialect_of(ptrdiff_t kind)
{
    if (kind == 6) return &llamacpp_dialect;
    if (kind == 8) return &responses_dialects[RESPONSES_CREATE];
    if (kind == 7) return &anthropic_dialects[ANTHROPIC_MESSAGES];
    return kind < 4 ? &openai_dialects[kind] : &ollama_dialects[kind - 4];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char kinds[] =
        "cpkdoglmr"; /* chat, completion (prompt), tokenize, detokenize,
                     Ollama's chat and generate, llama.cpp's, Messages, Responses */
    static ey_budget *budget;
    if (!budget) budget = ey_budget_create(1 << 20);
    struct media_policy media = {.max_bytes = 1 << 16, .budget = budget};
    struct api_limits limits = {.max_images = IMAGES,
                                .vocab_size = VOCABULARY,
                                .media = &media,
                                .tool_format = &hermes_tool_calls};
    limits.defaults.top_logprobs = -1;
    limits.defaults.sampling = (ey_sampling){.temperature = 1, .top_p = 1, .repetition_penalty = 1};
    const char *kind = size ? memchr(kinds, data[0], 9) : NULL;
    size_t skip = kind ? 1 : 0;
    limits.strict = size > 1 && data[size - 1] == '\n';
    struct api_request r;
    struct api_error error = {0};
    if (api_parse(&r, dialect_of(kind ? kind - kinds : API_CHAT), (const char *)data + skip,
                  size - skip, &limits, &error)) {
        check_prompts(&r);
        check_answer_options(&r);
        check_header(&r.unknown);
        check_header(&r.notes);
        api_request_drop_prompts(&r);
        check_answer_options(&r);
    } else {
        check_error(&error);
    }
    api_request_free(&r);
    require(ey_budget_used(budget) == 0);
    return 0;
}
