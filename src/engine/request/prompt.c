/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a prompt from messages, text or ids. Needs no device, so any number of threads may do
 * it. */
#include "engine/request/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "engine/engine_internal.h"
#include "engine/cache/image_cache.h"
#include "engine/request/pooled.h"
#include "engine/request/prompt_images.h"
#include "models/pooling/pooling_messages.h"

void prompt_ref(ey_prompt *prompt)
{
    atomic_fetch_add(&prompt->refs, 1);
}

void ey_prompt_free(ey_prompt **out)
{
    ey_prompt *p = *out;
    *out = NULL;
    if (!p || atomic_fetch_sub(&p->refs, 1) > 1) return;
    for (size_t i = 0; i < p->n_images; i++)
        image_free(&p->images[i].pixels);
    if (p->budget_bytes) ey_budget_release(p->budget, p->budget_bytes);
    ids_free(&p->ids);
    arena_free(&p->arena);
    free(p);
}

ey_prompt_info ey_prompt_describe(const ey_prompt *p)
{
    return (ey_prompt_info){p->ids.id,   p->ids.n,        p->usage,
                            p->n_images, p->image_tokens, p->kv_bytes};
}

/* ---- ids ---- */

static bool encode_messages(ey_prompt *p, const struct engine_devices *devices,
                            const ey_request *request, const struct prompt *template, ey_err *e)
{
    int tokens[EY_MAX_IMAGES];
    struct vision_span spans[EY_MAX_IMAGES];
    const struct patch_spec *spec = &devices->model.patch_spec;
    for (size_t i = 0; i < p->n_images; i++)
        tokens[i] = p->images[i].tokens;
    if (!prompt_tokens(&p->ids, spans, template, devices->model.family->vision_marks, devices->tok,
                       tokens, request->parse_special_tokens, e))
        return false;
    for (size_t i = 0; i < p->n_images; i++)
        p->images[i].span = (struct image_span){spans[i].first, p->images[i].rows / spec->merge,
                                                p->images[i].cols / spec->merge};
    return true;
}

/* Checks the ids of a prompt that was given as text or ids. Such a prompt has no images, so it must
 * not contain image tokens. */
static bool check_prompt_ids(const struct engine_devices *devices, const struct ids *ids, ey_err *e)
{
    const struct vision_marks *v = devices->model.family->vision_marks;
    const char *marks[] = {v ? v->start : NULL, v ? v->pad : NULL, v ? v->end : NULL,
                           "<|video_pad|>"};
    int32_t forbidden[4];
    for (int k = 0; k < 4; k++)
        forbidden[k] = marks[k] ? tokenizer_added_id(devices->tok, marks[k]) : -1;
    for (size_t i = 0; i < ids->n; i++) {
        int32_t id = ids->id[i];
        if (id < 0 || id >= devices->model.text.vocab_size)
            return ey_fail(e, EY_BAD_REQUEST, "token id %d is not in the vocabulary of %d", id,
                           devices->model.text.vocab_size);
        for (int k = 0; k < 4; k++)
            if (id == forbidden[k])
                return ey_fail(e, EY_BAD_REQUEST,
                               "the prompt has the image token %s; images go into chat messages",
                               marks[k]);
    }
    return ids->n || ey_fail(e, EY_BAD_REQUEST, "the prompt is empty");
}

static bool encode_raw_prompt(ey_prompt *p, const struct engine_devices *devices,
                              const ey_request *request, ey_err *e)
{
    if (request->ids) {
        if (request->n_ids > EY_MAX_CONTEXT)
            return ey_fail(e, EY_TOO_LONG, "the prompt has %zu token ids; at most %d are possible",
                           request->n_ids, EY_MAX_CONTEXT);
        for (size_t i = 0; i < request->n_ids; i++)
            if (!ids_push(&p->ids, request->ids[i]))
                return ey_fail_memory(e, "token ids", request->n_ids * sizeof(int32_t));
    } else if (request->add_bos && tokenizer_bos_id(devices->tok) >= 0 &&
               !ids_push(&p->ids, tokenizer_bos_id(devices->tok))) {
        return ey_fail_memory(e, "token ids", sizeof(int32_t));
    } else if (!tokenizer_encode(devices->tok, request->text, request->n_text,
                                 request->parse_special_tokens, &p->ids, e)) {
        return false;
    }
    return check_prompt_ids(devices, &p->ids, e);
}

/* ---- what can never fit ---- */

static bool check_prompt_length(const ey_prompt *p, const ey_engine *engine, ey_err *e)
{
    int blocks = 0;
    if (p->ids.n >= (size_t)engine->limits.max_model_len)
        return ey_fail(e, EY_TOO_LONG,
                       "the prompt has %zu tokens; the context of %d leaves no room for an answer: "
                       "use smaller images or a larger --max-model-len",
                       p->ids.n, engine->limits.max_model_len);
    for (size_t i = 0; i < p->n_images; i++)
        blocks += image_cache_blocks(p->images[i].tokens);
    if (blocks <= engine->caches.images.n_blocks) return true;
    return ey_fail(e, EY_TOO_LONG,
                   "%zu images need %d blocks of features; there are %d: send fewer or use a "
                   "larger --max-model-len",
                   p->n_images, blocks, engine->caches.images.n_blocks);
}

static bool fill_positions(ey_prompt *p, const ey_engine *engine, ey_err *e)
{
    struct image_span runs[EY_MAX_IMAGES];
    for (size_t i = 0; i < p->n_images; i++) {
        runs[i] = p->images[i].span;
        p->image_tokens += p->images[i].tokens;
    }
    p->position = arena_array(&p->arena, p->ids.n, 3 * sizeof(int32_t));
    if (!p->position) return ey_fail_memory(e, "positions", p->ids.n * 3 * sizeof(int32_t));
    p->next_position = mrope_positions(p->position, p->ids.n, runs, p->n_images);
    p->kv_bytes = (p->ids.n + KV_BLOCK - 1) / KV_BLOCK * engine->buffers.kv_block_bytes;
    return true;
}

/* Refuses text that cannot fit even if all its tokens are as long as possible, because tokenizing
 * it would take long. */
static bool check_prompt_text(const struct engine_limits *limits, size_t n, ey_err *e)
{
    enum { NFC_SHRINKS = 3 }; /* NFC makes one syllable of three jamo */
    uint64_t max_bytes = (uint64_t)limits->max_model_len * limits->longest_token * NFC_SHRINKS;
    return n <= max_bytes ||
           ey_fail(e, EY_TOO_LONG,
                   "the prompt has %zu bytes of text; the context of %d tokens holds "
                   "at most %llu: shorten it or use a larger --max-model-len",
                   n, limits->max_model_len, (unsigned long long)max_bytes);
}

static bool fit_prompt(ey_prompt *p, const ey_engine *engine, const ey_request *request, ey_err *e)
{
    return (!p->pools || pooled_fit_prompt(p, engine, request, e)) &&
           check_prompt_length(p, engine, e) && fill_positions(p, engine, e);
}

static bool write_prompt(struct prompt *out, const struct model *model, const ey_request *request,
                         ey_err *e)
{
    if (request->messages || !request->parts) return model->family->prompt(out, request, e);
    return chat_write_raw(out, request, model->vision.depth > 0, e);
}

static bool prompt_fill(ey_prompt *p, ey_engine *engine, const ey_request *request, ey_err *e)
{
    if (!request->messages && (request->text || request->ids))
        return check_prompt_text(&engine->limits, request->ids ? 0 : request->n_text, e) &&
               encode_raw_prompt(p, &engine->devices, request, e) &&
               fit_prompt(p, engine, request, e);
    struct prompt template = {0};
    bool ok = write_prompt(&template, &engine->devices.model, request, e) &&
              check_prompt_text(&engine->limits, template.text.size, e) &&
              prompt_images_open(p, engine, request, e) &&
              encode_messages(p, &engine->devices, request, &template, e) &&
              fit_prompt(p, engine, request, e);
    prompt_free(&template);
    return ok;
}

/* Builds the model's own messages around the request's input. */
static bool prompt_fill_input(ey_prompt *p, ey_engine *engine, ey_request *request, ey_err *e)
{
    ey_message messages[POOLING_MESSAGES];
    if (!pooling_messages(messages, request->input, engine->devices.model.task, &p->arena, e))
        return false;
    request->messages = messages;
    request->n_messages = POOLING_MESSAGES;
    return prompt_fill(p, engine, request, e);
}

/* Resolves the thinking mode. AUTO stays only for models that cannot think. */
static bool settle_thinking(ey_request *request, const struct model *model, ey_err *e)
{
    if (request->thinking == EY_THINKING_ON && request->messages && !model->thinks)
        return ey_fail(e, EY_BAD_REQUEST,
                       "this model does not think before it answers; turn thinking off, or use a "
                       "Thinking checkpoint");
    if (!model->thinks)
        request->thinking = EY_THINKING_AUTO;
    else if (request->thinking != EY_THINKING_OFF)
        request->thinking = EY_THINKING_ON;
    return true;
}

/* Keeps only the prompt that is used: messages or an input, else text or ids, else parts. Images of
 * the others must not be counted. */
static void keep_one_prompt(ey_request *request)
{
    if (!request->messages) request->n_messages = 0;
    if (!request->messages && !request->input && !request->text && !request->ids) return;
    request->parts = NULL;
    request->n_parts = 0;
}

bool ey_prompt_prepare(ey_engine *engine, const ey_request *given, ey_prompt **out, ey_err *e)
{
    ey_request request;
    *out = NULL;
    if (!request_read(&request, given, e) ||
        !pooled_check_task(&request, engine->devices.model.task, e) ||
        !settle_thinking(&request, &engine->devices.model, e))
        return false;
    keep_one_prompt(&request);
    ey_prompt *p = calloc(1, sizeof(*p));
    if (!p) return ey_fail_memory(e, "the prompt", sizeof(*p));
    atomic_init(&p->refs, 1);
    p->is_turn = request.messages && !request.continue_answer;
    p->opens_thought = p->is_turn && request.thinking == EY_THINKING_ON;
    p->budget = request.budget ? request.budget : engine->devices.budget;
    p->pools = request.pool;
    if (!(request.input ? prompt_fill_input(p, engine, &request, e)
                        : prompt_fill(p, engine, &request, e))) {
        ey_prompt_free(&p);
        return false;
    }
    *out = p;
    return true;
}
