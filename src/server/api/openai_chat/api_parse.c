/* SPDX-License-Identifier: Apache-2.0 */
/* Reads requests of chat, completions and the routes that count tokens. One table lists all known
 * fields, in the order in which they are read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "server/api/common/sampling_fields.h"
#include "server/api/common/thinking_fields.h"
#include "server/api/openai_chat/api_messages.h"
#include "server/api/openai_chat/api_response_format.h"
#include "server/api/openai_chat/openai_dialect.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- answers ---- */

static bool read_n(struct api_parser *p, const char *path, json_object *value)
{
    int64_t got;
    if (!field_int(&p->reading, path, value, 1, EY_MAX_REQUEST_CHOICES, &got)) return false;
    p->reading.out->n = (int)got;
    return true;
}

/* best_of must equal n: discarded candidates are not supported. */
static bool read_best_of(struct api_parser *p, const char *path, json_object *value)
{
    int64_t got;
    if (!field_int(&p->reading, path, value, 1, INT32_MAX, &got)) return false;
    return got == p->reading.out->n ||
           api_fail(p->reading.error, path, "best_of other than n is not supported; leave it out");
}

static bool read_bias(struct api_parser *p, const char *path, const char *key, json_object *value,
                      ey_logit_bias *out)
{
    int vocab_size = p->reading.limits->vocab_size;
    struct field_path whole = field_root(path);
    char *rest;
    long id = strtol(key, &rest, 10);
    bool number = json_object_is_type(value, json_type_int) ||
                  json_object_is_type(value, json_type_double);
    double bias = number ? json_object_get_double(value) : 0;
    if (key[0] < '0' || key[0] > '9' || *rest || id >= vocab_size)
        return api_fail_value(p->reading.error, path,
                              "%s: \"%.40s\" is not a token id from 0 to %d", path, key,
                              vocab_size - 1);
    if (!number || bias != bias)
        return api_fail_field(p->reading.error, field_member(&whole, key).text, "a number", value);
    *out = (ey_logit_bias){(int)id, bias > 100 ? 100.0f : bias < -100 ? -100.0f : (float)bias};
    return true;
}

static bool read_logit_bias(struct api_parser *p, const char *path, json_object *value)
{
    ey_request *request = &p->reading.out->request;
    if (!field_object(&p->reading, path, value)) return false;
    size_t n = (size_t)json_object_object_length(value);
    if (n > EY_MAX_LOGIT_BIAS)
        return api_fail_value(p->reading.error, path, "%s has %zu items; the limit is %d", path, n,
                              EY_MAX_LOGIT_BIAS);
    ey_logit_bias *biases = arena_array(p->reading.lasting, n + 1, sizeof(*biases));
    if (!biases) return api_fail_memory(p->reading.error);
    request->logit_bias = biases;
    json_object_object_foreach(value, key, bias)
    {
        if (!read_bias(p, path, key, bias, &biases[request->n_logit_bias])) return false;
        request->n_logit_bias++;
    }
    return true;
}

/* ---- the end of an answer ---- */

/* LM Studio's clients send -1 for no limit. */
static bool read_chat_length(struct api_parser *p, const char *path, json_object *value)
{
    return (json_object_is_type(value, json_type_int) && json_object_get_int64(value) == -1) ||
           read_max_tokens(p, path, value);
}

static bool read_stop_ids(struct api_parser *p, const char *path, json_object *value)
{
    ey_request *request = &p->reading.out->request;
    return field_ids(&p->reading, path, value, EY_MAX_STOP_IDS, p->reading.lasting,
                     &request->stop_ids, &request->n_stop_ids);
}

static bool read_min_tokens(struct api_parser *p, const char *path, json_object *value)
{
    int max_tokens = p->reading.out->request.max_tokens;
    int64_t got;
    if (!field_int(&p->reading, path, value, 0, EY_MAX_CONTEXT, &got)) return false;
    if (max_tokens && got > max_tokens)
        return api_fail(p->reading.error, path,
                        "min_tokens must be less than or equal to max_tokens=%d, got %d.",
                        max_tokens, (int)got);
    p->reading.out->request.min_tokens = (int)got;
    return true;
}

static bool read_ignore_eos(struct api_parser *p, const char *path, json_object *value)
{
    return field_bool(&p->reading, path, value, &p->reading.out->request.ignore_eos);
}

/* ---- contents of a reply ---- */

static bool read_chat_logprobs(struct api_parser *p, const char *path, json_object *value)
{
    if (!field_bool(&p->reading, path, value, &p->logprobs)) return false;
    if (p->logprobs) p->reading.out->request.top_logprobs = 0;
    return true;
}

static bool read_top_logprobs(struct api_parser *p, const char *path, json_object *value)
{
    int64_t got;
    if (!field_int(&p->reading, path, value, 0, EY_MAX_TOP_LOGPROBS, &got)) return false;
    if (got && !p->logprobs)
        return api_fail(p->reading.error, path,
                        "when using `top_logprobs`, `logprobs` must be set to true.");
    if (p->logprobs) p->reading.out->request.top_logprobs = (int)got;
    return true;
}

static bool read_completion_logprobs(struct api_parser *p, const char *path, json_object *value)
{
    int64_t got;
    if (!field_int(&p->reading, path, value, 0, EY_MAX_TOP_LOGPROBS, &got)) return false;
    p->reading.out->request.top_logprobs = (int)got;
    return true;
}

static bool read_echo(struct api_parser *p, const char *path, json_object *value)
{
    return field_bool(&p->reading, path, value, &p->reading.out->echo);
}

/* max_tokens 0 is only useful with echo. */
static bool read_completion_tokens(struct api_parser *p, const char *path, json_object *value)
{
    struct api_request *out = p->reading.out;
    const bool none = json_object_is_type(value, json_type_int) && !json_object_get_int64(value);
    if (!none || !out->echo) return read_max_tokens(p, path, value);
    out->only_echo = out->length_given = true;
    out->request.max_tokens = 1;
    return true;
}

static void ask_prompt_logprobs(ey_request *request, int top)
{
    request->prompt_logprobs = true;
    request->top_prompt_logprobs = top;
}

/* As in vLLM, streams accept only 0, which has no effect there. */
static bool read_prompt_logprobs(struct api_parser *p, const char *path, json_object *value)
{
    const struct api_reading *r = &p->reading;
    int64_t got;
    if (!field_int(r, path, value, INT32_MIN, INT32_MAX, &got)) return false;
    if (got < -1)
        return api_fail(r->error, path, "`prompt_logprobs` must be a positive value or -1.");
    if (r->out->stream)
        return !got ||
               api_fail(r->error, path, "`prompt_logprobs` are not available when `stream=True`.");
    if (got < 0 || got > EY_MAX_TOP_LOGPROBS)
        return api_fail(r->error, path,
                        "Requested prompt logprobs of %d, which is greater than max allowed: %d",
                        got < 0 ? r->limits->vocab_size : (int)got, EY_MAX_TOP_LOGPROBS);
    ask_prompt_logprobs(&r->out->request, (int)got);
    return true;
}

static bool read_stream_options(struct api_parser *p, const char *path, json_object *value)
{
    static const char *const known[] = {"include_usage"};
    json_object *include = json_member(value, "include_usage");
    if (!field_object(&p->reading, path, value)) return false;
    if (json_object_object_length(value) && !p->reading.out->stream)
        return api_fail(p->reading.error, path,
                        "Stream options can only be defined when `stream=True`.");
    return field_members_known(&p->reading, path, value, known, COUNT(known)) &&
           (!include || field_bool(&p->reading, "stream_options.include_usage", include,
                                   &p->reading.out->include_usage));
}

static bool read_token_strings(struct api_parser *p, const char *path, json_object *value)
{
    return field_bool(&p->reading, path, value, &p->reading.out->token_strings);
}

/* ---- tools ---- */

static bool read_tools(struct api_parser *p, const char *path, json_object *value)
{
    (void)path;
    return tools_read(&p->reading, &p->tools, value);
}

static bool read_tool_choice(struct api_parser *p, const char *path, json_object *value)
{
    struct api_request *out = p->reading.out;
    const char *choice = json_object_is_type(value, json_type_string)
                             ? json_object_get_string(value)
                             : "";
    if (!strcmp(choice, "none")) return tools_drop(&p->reading), true;
    if (!strcmp(choice, "auto"))
        return out->tools_given ||
               json_object_is_type(json_member(p->json, "tools"), json_type_array) ||
               api_fail(p->reading.error, path, "When using `tool_choice`, `tools` must be set.");
    if (!strcmp(choice, "required") || json_object_is_type(value, json_type_object))
        return format_read_tool_choice(&p->reading, &p->format, path, value, &p->tools);
    return api_fail_field(p->reading.error, path,
                          "\"auto\", \"none\", \"required\", a named function or allowed_tools",
                          value);
}

static bool read_parallel_calls(struct api_parser *p, const char *path, json_object *value)
{
    bool parallel;
    if (!field_bool(&p->reading, path, value, &parallel)) return false;
    p->reading.out->single_call = !parallel;
    return true;
}

/* ---- constraints ---- */

static bool read_response_format(struct api_parser *p, const char *path, json_object *value)
{
    return format_read_response(&p->reading, &p->format, path, value);
}

static bool read_structured_outputs(struct api_parser *p, const char *path, json_object *value)
{
    return format_read_structured(&p->reading, &p->format, path, value);
}

static bool read_guided_json(struct api_parser *p, const char *path, json_object *value)
{
    return format_read_schema(&p->reading, &p->format, path, value);
}

static bool read_guided_regex(struct api_parser *p, const char *path, json_object *value)
{
    return format_read_regex(&p->reading, &p->format, path, value);
}

static bool read_guided_choice(struct api_parser *p, const char *path, json_object *value)
{
    return format_read_choice(&p->reading, &p->format, path, value);
}

/* ---- prompts ---- */

static bool read_messages(struct api_parser *p, const char *path, json_object *value)
{
    (void)path;
    return messages_read(&p->reading, &p->images, value);
}

static bool read_prompt_ids(const struct api_reading *r, const char *path, json_object *value,
                            struct api_prompt *out)
{
    if (!field_ids(r, path, value, EY_MAX_REQUEST_VALUES, r->passing, &out->ids, &out->n_ids))
        return false;
    return out->n_ids || api_fail_value(r->error, path, "%s must not be empty", path);
}

static bool read_prompt_item(const struct api_reading *r, const char *path, json_object *value,
                             struct api_prompt *out)
{
    if (json_object_is_type(value, json_type_array)) return read_prompt_ids(r, path, value, out);
    size_t most = r->out->kind == API_TOKENIZE ? EY_MAX_TOKENIZE_BYTES : EY_MAX_TEXT_BYTES;
    if (!field_text(r, path, value, most, &out->text, &out->n_text)) return false;
    return out->n_text || r->out->kind == API_TOKENIZE ||
           api_fail_value(r->error, path, "%s must not be empty", path);
}

/* Reads a text, texts, ids, or lists of ids. */
static bool read_prompt(struct api_parser *p, const char *path, json_object *value)
{
    const struct api_reading *r = &p->reading;
    struct field_path whole = field_root(path);
    bool list = json_object_is_type(value, json_type_array);
    json_object *first = list ? json_object_array_get_idx(value, 0) : NULL;
    bool several = list && (json_object_is_type(first, json_type_string) ||
                            json_object_is_type(first, json_type_array));
    size_t n = 1;
    if (!list && !json_object_is_type(value, json_type_string))
        return api_fail_field(r->error, path,
                              "a string, or an array of strings, token ids or arrays of token ids",
                              value);
    if (r->out->kind == API_TOKENIZE && list)
        return api_fail_field(r->error, path, "a string", value);
    if (several && !field_array(r, path, value, 1, EY_MAX_PROMPTS, &n)) return false;
    r->out->prompts = arena_array(r->passing, n, sizeof(*r->out->prompts));
    if (!r->out->prompts) return api_fail_memory(r->error);
    r->out->n_prompts = n;
    if (!several) return read_prompt_item(r, path, value, r->out->prompts);
    for (size_t i = 0; i < n; i++) {
        struct field_path item = field_item(&whole, i);
        json_object *prompt = json_object_array_get_idx(value, i);
        if (json_object_get_type(prompt) != json_object_get_type(first))
            return api_fail_field(r->error, item.text, "of the same kind as the first prompt",
                                  prompt);
        if (!read_prompt_item(r, item.text, prompt, &r->out->prompts[i])) return false;
    }
    return true;
}

static bool read_tokens(struct api_parser *p, const char *path, json_object *value)
{
    const struct api_reading *r = &p->reading;
    r->out->prompts = arena_array(r->passing, 1, sizeof(*r->out->prompts));
    if (!r->out->prompts) return api_fail_memory(r->error);
    r->out->n_prompts = 1;
    return field_ids(r, path, value, EY_MAX_REQUEST_VALUES, r->passing, &r->out->prompts->ids,
                     &r->out->prompts->n_ids);
}

/* ---- continuing an answer ---- */

static bool is_given_as(const struct api_parser *p, const char *name, bool wanted)
{
    json_object *value = json_member(p->json, name);
    return json_object_is_type(value, json_type_boolean) &&
           (json_object_get_boolean(value) != 0) == wanted;
}

/* false is refused unless the last message is continued: the prompt would end with a finished turn,
 * so the model would have nothing to answer. */
static bool read_generation_prompt(struct api_parser *p, const char *path, json_object *value)
{
    return is_given_as(p, "continue_final_message", true) || only_true(p, path, value);
}

static bool read_continue(struct api_parser *p, const char *path, json_object *value)
{
    bool *wanted = &p->reading.out->request.continue_answer;
    if (!field_bool(&p->reading, path, value, wanted)) return false;
    return !*wanted || is_given_as(p, "add_generation_prompt", false) ||
           api_fail(p->reading.error, path,
                    "Cannot set both `continue_final_message` and `add_generation_prompt` to "
                    "True.");
}

/* ---- the rest ---- */

/* Affects raw prompts only: chat formats write their own special tokens. */
static bool read_add_special(struct api_parser *p, const char *path, json_object *value)
{
    return field_bool(&p->reading, path, value, &p->reading.out->request.add_bos);
}

static bool read_modalities(struct api_parser *p, const char *path, json_object *value)
{
    size_t n;
    if (!field_array(&p->reading, path, value, 0, 8, &n)) return false;
    for (size_t i = 0; i < n; i++) {
        json_object *item = json_object_array_get_idx(value, i);
        if (!field_text_is(item, "text"))
            return api_fail(p->reading.error, path,
                            "modalities other than [\"text\"] are not supported");
    }
    return true;
}

/* ---- llama.cpp's names ---- */

/* llama.cpp adds no BOS token unless add_special is true. */
static bool read_content_text(struct api_parser *p, const char *path, json_object *value)
{
    p->reading.out->request.add_bos = false;
    return read_prompt(p, path, value);
}

static bool read_with_pieces(struct api_parser *p, const char *path, json_object *value)
{
    return field_bool(&p->reading, path, value, &p->reading.out->token_pieces);
}

static bool read_n_predict(struct api_parser *p, const char *path, json_object *value)
{
    if (json_object_is_type(value, json_type_int) && json_object_get_int64(value) < 0) return true;
    return read_max_tokens(p, path, value);
}

/* ---- the table ---- */

enum {
    CHAT = 1 << API_CHAT,
    TEXT = 1 << API_COMPLETION,
    TOKENIZE = 1 << API_TOKENIZE,
    DETOKENIZE = 1 << API_DETOKENIZE
};
enum { ASK = CHAT | TEXT, TALK = CHAT | TOKENIZE, ALL = ASK | TOKENIZE | DETOKENIZE };

/* Cheap fields come before large ones; a field that depends on another comes after it. */
static const struct api_field fields[] = {
    {"model", ALL, accept_field}, /* read before the others */
    {"stream", ASK, read_stream_flag},
    {"stream_options", ASK, read_stream_options},
    {"n_predict", ASK, read_n_predict},
    {"echo", TEXT, read_echo},
    {"max_tokens", CHAT, read_chat_length},
    {"max_tokens", TEXT, read_completion_tokens},
    {"max_completion_tokens", CHAT, read_max_tokens}, /* after max_tokens, so it wins */
    {"min_tokens", ASK, read_min_tokens},
    {"temperature", ASK, read_temperature},
    {"top_p", ASK, read_top_p},
    {"top_k", ASK, read_top_k},
    {"min_p", ASK, read_min_p},
    {"repeat_penalty", ASK, read_repetition_penalty},
    {"repetition_penalty", ASK, read_repetition_penalty},
    {"presence_penalty", ASK, read_presence_penalty},
    {"frequency_penalty", ASK, read_frequency_penalty},
    {"seed", ASK, read_seed},
    {"n", ASK, read_n},
    {"best_of", ASK, read_best_of},
    {"logit_bias", ASK, read_logit_bias},
    {"stop", ASK, read_stop},
    {"stop_token_ids", ASK, read_stop_ids},
    {"ignore_eos", ASK, read_ignore_eos},
    {"logprobs", CHAT, read_chat_logprobs},
    {"top_logprobs", CHAT, read_top_logprobs},
    {"logprobs", TEXT, read_completion_logprobs},
    {"prompt_logprobs", ASK, read_prompt_logprobs},
    {"return_token_strs", TOKENIZE, read_token_strings},

    {"response_format", ASK, read_response_format},
    {"structured_outputs", ASK, read_structured_outputs},
    {"guided_json", ASK, read_guided_json},
    {"json_schema", ASK, read_guided_json},
    {"guided_regex", ASK, read_guided_regex},
    {"guided_choice", ASK, read_guided_choice},
    {"modalities", CHAT, read_modalities},
    {"add_generation_prompt", TALK, read_generation_prompt},
    {"skip_special_tokens", ASK | DETOKENIZE, only_true},
    {"echo", CHAT, refuse_field},
    {"suffix", TEXT, refuse_field},
    {"guided_grammar", ASK, refuse_field},
    {"guided_whitespace_pattern", ASK, refuse_field},
    {"structural_tag", ASK, refuse_field},
    {"functions", CHAT, refuse_field},
    {"function_call", CHAT, refuse_field},
    {"audio", CHAT, refuse_field},
    {"web_search_options", CHAT, refuse_field},
    {"chat_template", TALK, refuse_field},
    {"documents", TALK, refuse_field},
    {"continue_final_message", TALK, read_continue},
    {"use_beam_search", ASK, refuse_field},
    {"bad_words", ASK, refuse_field},
    {"allowed_token_ids", ASK, refuse_field},
    {"logits_processors", ASK, refuse_field},
    {"prompt_embeds", ASK, refuse_field},
    {"truncate_prompt_tokens", ASK | TOKENIZE, refuse_field},
    {"include_stop_str_in_output", ASK, refuse_field},
    {"return_token_ids", ASK, refuse_field},
    {"return_tokens_as_token_ids", ASK, refuse_field},

    {"user", ASK, accept_field},
    {"store", CHAT, accept_field},
    {"metadata", CHAT, accept_field},
    {"service_tier", CHAT, accept_field},
    {"safety_identifier", ASK, accept_field},
    {"prompt_cache_key", ASK, accept_field},
    {"prompt_cache_retention", ASK, accept_field},
    {"prediction", CHAT, accept_field},
    {"request_id", ASK, accept_field},
    {"priority", ASK, accept_field},
    {"guided_decoding_backend", ASK, accept_field},
    {"cache_prompt", ASK, accept_field},
    {"id_slot", ASK, accept_field},
    {"context_size", ASK, accept_field}, /* Frigate's own option, which it sends along */
    {"repeat_last_n", ASK, accept_field},
    {"timings_per_token", ASK, accept_field},
    {"parse_special", TOKENIZE, only_true},
    {"with_pieces", TOKENIZE, read_with_pieces},
    {"spaces_between_special_tokens", ASK, accept_field},
    {"add_special_tokens", ASK | TOKENIZE, read_add_special},
    {"length_penalty", ASK, accept_field}, /* affects beam search only */

    {"reasoning_effort", CHAT, read_reasoning_effort},
    {"chat_template_kwargs", TALK, read_template_options},
    {"reasoning_budget_tokens", CHAT, read_thinking_budget},
    {"thinking_budget_tokens", CHAT, read_thinking_budget},
    {"thinking_token_budget", CHAT, read_thinking_budget}, /* the last one wins */
    {"include_reasoning", CHAT, read_include_reasoning},
    {"repetition_detection", ASK, read_repetition_detection},
    {"mm_processor_kwargs", TALK, read_mm_processor},
    {"tools", TALK, read_tools},
    {"tool_choice", TALK, read_tool_choice},
    {"parallel_tool_calls", CHAT, read_parallel_calls},
    {"messages", TALK, read_messages},
    {"content", TOKENIZE, read_content_text},
    {"add_special", TOKENIZE, read_add_special},
    {"prompt", TEXT | TOKENIZE, read_prompt},
    {"tokens", DETOKENIZE, read_tokens},
};

/* ---- whole requests ---- */

static bool check_complete(struct api_parser *p)
{
    static const char *const wanted[] = {"messages", "prompt", "prompt", "tokens"};
    const struct api_request *out = p->reading.out;
    const char *name = wanted[out->kind];
    bool talk = out->request.n_messages, text = out->n_prompts;
    if (talk && text)
        return api_fail(p->reading.error, "messages", "messages and prompt cannot both be given");
    return talk || text || api_fail_value(p->reading.error, name, "%s is missing", name);
}

bool openai_read(struct api_parser *p)
{
    struct api_request *out = p->reading.out;
    out->request.parse_special_tokens = out->kind != API_CHAT;
    if (out->kind == API_COMPLETION) out->request.max_tokens = API_COMPLETION_TOKENS;
    if (!api_read_fields(p, fields, COUNT(fields)) ||
        !api_note_unknown_fields(p, fields, COUNT(fields)) || !check_complete(p))
        return false;
    if (out->request.n_messages) out->request.parse_special_tokens = false;
    if (out->echo && out->request.top_logprobs >= 0 && !out->request.prompt_logprobs)
        ask_prompt_logprobs(&out->request, out->request.top_logprobs);
    if (out->kind == API_TOKENIZE)
        p->format = (struct answer_format){0}; /* tokenizing has no answer */
    return true;
}
