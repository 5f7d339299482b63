/* SPDX-License-Identifier: Apache-2.0 */
/* POST /completion: takes a prompt without a chat template; the answer has counts and times. */
#include "server/api/llamacpp/llamacpp_dialect.h"

#include <string.h>

#include "base/limits.h"
#include "base/text/json_writer.h"
#include "server/api/common/sampling_fields.h"
#include "server/api/llamacpp/llamacpp_prompt.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The state of a stream, for its last event. */
struct llamacpp_state {
    ey_finish finish;
    const char *stopping_word; /* the stop text that ended the answer, or NULL */
    bool has_new_line;
};

/* ---- requests ---- */

/* In llama.cpp, 0 caches the prompt without an answer; here an answer has at least one token. */
static bool read_completion_length(struct api_parser *p, const char *path, json_object *value)
{
    int64_t got;
    if (!field_int(&p->reading, path, value, INT32_MIN, INT32_MAX, &got)) return false;
    p->reading.out->length_given = got >= 0;
    p->reading.out->request.max_tokens = got < 0                ? 0
                                         : got == 0             ? 1
                                         : got > EY_MAX_CONTEXT ? EY_MAX_CONTEXT
                                                                : (int)got;
    return true;
}

static bool read_completion_schema(struct api_parser *p, const char *path, json_object *value)
{
    return format_read_schema(&p->reading, &p->format, path, value);
}

static bool read_completion_ignore_eos(struct api_parser *p, const char *path, json_object *value)
{
    return field_bool(&p->reading, path, value, &p->reading.out->request.ignore_eos);
}

static bool read_n_probs(struct api_parser *p, const char *path, json_object *value)
{
    int64_t got;
    if (!field_int(&p->reading, path, value, 0, EY_MAX_TOP_LOGPROBS, &got)) return false;
    if (got) p->reading.out->request.top_logprobs = (int)got;
    return true;
}

/* Only the probabilities before sampling are known. */
static bool read_post_sampling(struct api_parser *p, const char *path, json_object *value)
{
    bool wanted;
    if (!field_bool(&p->reading, path, value, &wanted)) return false;
    if (wanted && p->reading.out->request.top_logprobs >= 0)
        api_note(&p->reading, "%s was ignored: the probabilities are those before sampling", path);
    return true;
}

/* Reads a field that has no effect here, and notes that. */
static bool note_completion_field(struct api_parser *p, const char *path, json_object *value)
{
    if (!field_is_neutral(value)) api_note(&p->reading, "%s was ignored", path);
    return true;
}

/* Reads [id, bias]. A bias of false, which forbids the token in llama.cpp, becomes -100 here. */
static bool read_bias_pair(const struct api_reading *r, const struct field_path *path,
                           json_object *value, ey_logit_bias *out)
{
    enum { LEAST = -100, MOST = 100 };
    const struct field_path id_path = field_item(path, 0), bias_path = field_item(path, 1);
    int64_t id;
    if (!json_object_is_type(value, json_type_array) || json_object_array_length(value) != 2)
        return api_fail_value(r->error, path->text, "%s must be an array of a token id and a bias",
                              path->text);
    if (!field_int(r, id_path.text, json_object_array_get_idx(value, 0), 0,
                   r->limits->vocab_size - 1, &id))
        return false;
    json_object *bias = json_object_array_get_idx(value, 1);
    *out = (ey_logit_bias){.id = (int)id, .bias = LEAST};
    if (json_object_is_type(bias, json_type_boolean) && !json_object_get_boolean(bias)) return true;
    return field_number(r, bias_path.text, bias, LEAST, MOST, "[-100, 100] or false", &out->bias);
}

static bool read_completion_bias(struct api_parser *p, const char *path, json_object *value)
{
    const struct api_reading *r = &p->reading;
    const struct field_path whole = field_root(path);
    size_t n;
    if (!field_array(r, path, value, 0, EY_MAX_LOGIT_BIAS, &n)) return false;
    ey_logit_bias *biases = arena_array(r->lasting, n + 1, sizeof(*biases));
    if (!biases) return api_fail_memory(r->error);
    for (size_t i = 0; i < n; i++) {
        const struct field_path item = field_item(&whole, i);
        if (!read_bias_pair(r, &item, json_object_array_get_idx(value, i), &biases[i]))
            return false;
    }
    r->out->request.logit_bias = biases;
    r->out->request.n_logit_bias = n;
    return true;
}

static const struct api_field fields[] = {
    {"model", 1, accept_field},
    {"stream", 1, read_stream_flag},
    {"max_tokens", 1, read_completion_length},
    {"n_predict", 1, read_completion_length},
    {"temperature", 1, read_temperature},
    {"top_k", 1, read_top_k},
    {"top_p", 1, read_top_p},
    {"min_p", 1, read_min_p},
    {"seed", 1, read_seed},
    {"stop", 1, read_stop},
    {"repeat_penalty", 1, read_repetition_penalty},
    {"presence_penalty", 1, read_presence_penalty},
    {"frequency_penalty", 1, read_frequency_penalty},
    {"ignore_eos", 1, read_completion_ignore_eos},
    {"json_schema", 1, read_completion_schema},
    {"grammar", 1, refuse_field},
    {"n_probs", 1, read_n_probs},
    {"logit_bias", 1, read_completion_bias},
    {"repeat_last_n", 1, accept_field},
    {"min_keep", 1, accept_field},
    {"return_tokens", 1, note_completion_field},
    {"cache_prompt", 1, accept_field},
    {"id_slot", 1, accept_field},
    {"samplers", 1, accept_field},
    {"t_max_predict_ms", 1, note_completion_field},
    {"response_fields", 1, note_completion_field},
    {"timings_per_token", 1, accept_field},
    {"post_sampling_probs", 1, read_post_sampling}, /* after n_probs */
    {"image_data", 1, accept_field},                /* read with the prompt */
    {"prompt", 1, read_llamacpp_prompt},
};

static bool read_completion(struct api_parser *p)
{
    if (!api_read_fields(p, fields, COUNT(fields)) ||
        !api_note_unknown_fields(p, fields, COUNT(fields)))
        return false;
    return p->reading.out->n_prompts ||
           api_fail_value(p->reading.error, "prompt", "prompt is missing");
}

/* ---- answers ---- */

static const char *stop_type(ey_finish finish, const char *word)
{
    return finish == EY_FINISH_LENGTH ? "limit" : word[0] ? "word" : "eos";
}

static void add_rate(struct json_writer *w, const char *each, const char *per_second, int64_t n,
                     double seconds)
{
    json_add_fixed(w, each, n ? 1e3 * seconds / (double)n : 0, 3);
    json_add_fixed(w, per_second, seconds > 0 ? (double)n / seconds : 0, 3);
}

static void add_completion_timings(struct json_writer *w, const struct api_usage *usage)
{
    int64_t computed = usage->prompt_tokens - usage->cached_tokens;
    double prompt_s = usage->vision_s + usage->prefill_s;
    json_write_key(w, "timings");
    json_open_object(w);
    json_add_int(w, "cache_n", usage->cached_tokens);
    json_add_int(w, "prompt_n", computed);
    json_add_fixed(w, "prompt_ms", 1e3 * prompt_s, 3);
    add_rate(w, "prompt_per_token_ms", "prompt_per_second", computed, prompt_s);
    json_add_int(w, "predicted_n", usage->completion_tokens);
    json_add_fixed(w, "predicted_ms", 1e3 * usage->decode_s, 3);
    add_rate(w, "predicted_per_token_ms", "predicted_per_second", usage->completion_tokens,
             usage->decode_s);
    json_close_object(w);
}

static void add_probability(struct json_writer *w, const ey_logprob *candidate)
{
    json_open_object(w);
    json_add_int(w, "id", candidate->id);
    api_add_token_logprob(w, candidate);
}

/* Writes each token with its likeliest alternatives. */
static void add_probabilities(struct json_writer *w, const struct api_logprobs *logprobs)
{
    if (!logprobs || !logprobs->tokens || !logprobs->n) return;
    json_write_key(w, "completion_probabilities");
    json_open_array(w);
    for (size_t i = 0; i < logprobs->n; i++) {
        const ey_token_logprobs *at = &logprobs->tokens[i];
        add_probability(w, &at->chosen);
        json_write_key(w, "top_logprobs");
        json_open_array(w);
        for (size_t k = 0; k < at->n_top; k++) {
            add_probability(w, &at->top[k]);
            json_close_object(w);
        }
        json_close_array(w);
        json_close_object(w);
    }
    json_close_array(w);
}

static void open_completion(struct json_writer *w, const struct api_choice *answer, bool stop)
{
    json_open_object(w);
    json_add_int(w, "index", answer->index);
    json_write_key(w, "content");
    json_write_text(w, answer->text ? answer->text : "", answer->n_text);
    json_write_key(w, "tokens");
    json_open_array(w);
    json_close_array(w);
    json_add_int(w, "id_slot", 0);
    json_add_bool(w, "stop", stop);
    add_probabilities(w, &answer->logprobs);
}

/* Writes the generation settings that clients read. */
static void add_completion_settings(struct json_writer *w, const ey_request *request)
{
    json_write_key(w, "generation_settings");
    json_open_object(w);
    json_add_fixed(w, "temperature", (double)request->sampling.temperature, 3);
    json_add_int(w, "top_k", request->sampling.top_k);
    json_add_fixed(w, "top_p", (double)request->sampling.top_p, 3);
    json_add_fixed(w, "min_p", (double)request->sampling.min_p, 3);
    json_add_int(w, "n_predict", request->max_tokens ? request->max_tokens : -1);
    json_add_uint(w, "seed", request->sampling.seed);
    json_close_object(w);
}

struct completion_end {
    ey_finish finish;
    const char *word; /* the stop text, or "" */
    int64_t prompt_tokens, completion_tokens;
    bool has_new_line;
};

static void write_completion_end(struct json_writer *w, const struct api_reply *reply,
                                 const struct completion_end *end, const struct api_usage *usage)
{
    json_add_string(w, "model", reply->model);
    json_add_int(w, "tokens_predicted", end->completion_tokens);
    json_add_int(w, "tokens_evaluated", end->prompt_tokens);
    json_add_int(w, "tokens_cached", end->prompt_tokens + end->completion_tokens);
    if (reply->request) add_completion_settings(w, &reply->request->request);
    json_add_bool(w, "has_new_line", end->has_new_line);
    json_add_bool(w, "truncated", false);
    json_add_string(w, "stop_type", stop_type(end->finish, end->word));
    json_add_string(w, "stopping_word", end->word);
    add_completion_timings(w, usage);
    json_close_object(w);
}

static bool has_new_line(const char *text, size_t n)
{
    return n && memchr(text, '\n', n);
}

/* Writes an object, or an array of objects for several prompts. */
static void write_completion_whole(struct buf *out, struct api_reply *reply,
                                   const struct api_choice *choices, size_t n,
                                   const struct api_usage *usage)
{
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    (void)usage; /* each answer has its own */
    if (n > 1) json_open_array(&w);
    for (size_t i = 0; i < n; i++) {
        const struct api_choice *choice = &choices[i];
        const struct completion_end end = {
            .finish = choice->end.finish,
            .word = choice->end.stop_text ? choice->end.stop_text : "",
            .prompt_tokens = choice->usage.prompt_tokens,
            .completion_tokens = choice->usage.completion_tokens,
            .has_new_line = has_new_line(choice->text, choice->n_text)};
        open_completion(&w, choice, true);
        write_completion_end(&w, reply, &end, &choice->usage);
    }
    if (n > 1) json_close_array(&w);
}

/* ---- a stream ---- */

/* Clients drop chunks that lack one of the two counts. */
static void write_completion_text(struct buf *out, struct api_reply *reply,
                                  const struct api_event *event)
{
    struct llamacpp_state *state = reply->state;
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    struct api_choice piece = {.text = event->text, .n_text = event->n_text};
    if (event->logprobs) piece.logprobs = *event->logprobs;
    buf_add_text(out, "data: ");
    open_completion(&w, &piece, false);
    json_add_int(&w, "tokens_predicted", event->n_tokens);
    json_add_int(&w, "tokens_evaluated", reply->prompt_tokens);
    json_close_object(&w);
    buf_add_text(out, "\n\n");
    state->has_new_line = state->has_new_line || has_new_line(event->text, event->n_text);
}

static void write_completion_last(struct buf *out, struct api_reply *reply,
                                  const struct api_usage *usage)
{
    const struct llamacpp_state *state = reply->state;
    const struct completion_end end = {.finish = state->finish,
                                       .word = state->stopping_word ? state->stopping_word : "",
                                       .prompt_tokens = usage->prompt_tokens,
                                       .completion_tokens = usage->completion_tokens,
                                       .has_new_line = state->has_new_line};
    const struct api_choice nothing = {.text = ""};
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    buf_add_text(out, "data: ");
    open_completion(&w, &nothing, true);
    write_completion_end(&w, reply, &end, usage);
    buf_add_text(out, "\n\n");
}

/* Writes the probabilities of tokens without text, such as the one that ended the answer. */
static void write_completion_end_event(struct buf *out, struct api_reply *reply,
                                       const struct api_event *event)
{
    struct llamacpp_state *state = reply->state;
    state->finish = event->end->finish;
    state->stopping_word = event->end->stop_text;
    if (event->logprobs) write_completion_text(out, reply, event);
}

static void write_completion_event(struct buf *out, struct api_reply *reply,
                                   const struct api_event *event)
{
    switch (event->type) {
    case API_EVENT_OPEN:
    case API_EVENT_START:
    case API_EVENT_CALL: break; /* the route has no tools */
    case API_EVENT_THINKING:
    case API_EVENT_TEXT: write_completion_text(out, reply, event); break;
    case API_EVENT_END: write_completion_end_event(out, reply, event); break;
    case API_EVENT_FINISH: write_completion_last(out, reply, event->usage); break;
    case API_EVENT_ERROR:
        buf_add_text(out, "data: ");
        write_llamacpp_error(out, event->error);
        buf_add_text(out, "\n\n");
        break;
    case API_EVENT_SILENCE: buf_printf(out, ": %s\n\n", event->text); break;
    }
}

const struct api_dialect llamacpp_dialect = {.id_prefix = "cmpl-",
                                             .call_prefix = "call_",
                                             .json_type = "application/json",
                                             .stream_type = "text/event-stream; charset=utf-8",
                                             .clips = true,
                                             .lenient = true,
                                             .state_bytes = sizeof(struct llamacpp_state),
                                             .read = read_completion,
                                             .write_whole = write_completion_whole,
                                             .write_event = write_completion_event};

/* ---- errors ---- */

static const char *llamacpp_error_type(const struct api_error *error)
{
    if (error->code == API_ERROR_TOO_LONG) return "exceed_context_size_error";
    switch (error->status) {
    case 401: return "authentication_error";
    case 403:
    case 421: return "permission_error";
    case 404: return "not_found_error";
    case 501: return "not_supported_error";
    case 503: return "unavailable_error";
    default: return error->status < 500 ? "invalid_request_error" : "server_error";
    }
}

int write_llamacpp_error(struct buf *out, const struct api_error *error)
{
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    json_open_object(&w);
    json_write_key(&w, "error");
    json_open_object(&w);
    json_add_int(&w, "code", error->status);
    json_add_string(&w, "message", api_error_text(error));
    json_add_string(&w, "type", llamacpp_error_type(error));
    json_close_object(&w);
    json_close_object(&w);
    return error->status;
}
