/* SPDX-License-Identifier: Apache-2.0 */
/* POST /completion: a prompt as it stands, its answer with counts and times. */
#include "server/api/llamacpp/llamacpp_dialect.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/text/json_writer.h"
#include "server/api/common/sampling_fields.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Between the answer's end and the stream's. */
struct llamacpp_state {
    int64_t predicted;
    ey_finish finish;
    char stopping_word[64];
};

/* ---- requests ---- */

/* Text or token ids; special tokens in the text count. */
static bool read_completion_prompt(struct api_parser *p, const char *path, json_object *value)
{
    const struct api_reading *r = &p->reading;
    struct api_prompt *prompt = r->out->prompts = arena_array(r->passing, 1, sizeof(*prompt));
    if (!prompt) return api_fail_memory(r->error);
    r->out->n_prompts = 1;
    r->out->request.parse_special_tokens = true;
    if (json_object_is_type(value, json_type_array)) {
        if (!field_ids(r, path, value, EY_MAX_REQUEST_VALUES, r->passing, &prompt->ids,
                       &prompt->n_ids))
            return false;
        return prompt->n_ids || api_fail_value(r->error, path, "%s must not be empty", path);
    }
    if (!json_object_is_type(value, json_type_string))
        return api_fail_field(r->error, path, "a string or an array of token ids", value);
    if (!field_text(r, path, value, EY_MAX_TEXT_BYTES, &prompt->text, &prompt->n_text))
        return false;
    return prompt->n_text || api_fail_value(r->error, path, "%s must not be empty", path);
}

/* 0 asks for a prompt to be cached and nothing else: one token is the least here. */
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
    {"n_probs", 1, refuse_field},
    {"logit_bias", 1, refuse_field},
    {"repeat_last_n", 1, accept_field},
    {"min_keep", 1, accept_field},
    {"return_tokens", 1, accept_field},
    {"cache_prompt", 1, accept_field},
    {"id_slot", 1, accept_field},
    {"samplers", 1, accept_field},
    {"t_max_predict_ms", 1, accept_field},
    {"response_fields", 1, accept_field},
    {"timings_per_token", 1, accept_field},
    {"post_sampling_probs", 1, accept_field},
    {"prompt", 1, read_completion_prompt},
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

static void open_completion(struct json_writer *w, const char *text, size_t n, bool stop)
{
    json_open_object(w);
    json_add_int(w, "index", 0);
    json_write_key(w, "content");
    json_write_text(w, text, n);
    json_write_key(w, "tokens");
    json_open_array(w);
    json_close_array(w);
    json_add_int(w, "id_slot", 0);
    json_add_bool(w, "stop", stop);
}

static void write_completion_end(struct json_writer *w, const struct api_reply *reply,
                                 ey_finish finish, const char *word, const struct api_usage *usage)
{
    json_add_string(w, "model", reply->model);
    json_add_int(w, "tokens_predicted", usage->completion_tokens);
    json_add_int(w, "tokens_evaluated", usage->prompt_tokens);
    json_add_int(w, "tokens_cached", usage->prompt_tokens + usage->completion_tokens);
    json_add_bool(w, "truncated", false);
    json_add_string(w, "stop_type", stop_type(finish, word));
    json_add_string(w, "stopping_word", word);
    add_completion_timings(w, usage);
    json_close_object(w);
}

static void write_completion_whole(struct buf *out, struct api_reply *reply,
                                   const struct api_choice *choices, size_t n,
                                   const struct api_usage *usage)
{
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    const char *word = choices->end.stop_text ? choices->end.stop_text : "";
    (void)n; /* there is one */
    open_completion(&w, choices->text ? choices->text : "", choices->n_text, true);
    write_completion_end(&w, reply, choices->end.finish, word, usage);
}

/* ---- a stream ---- */

/* Clients drop chunks without the two counts. */
static void write_completion_text(struct buf *out, struct api_reply *reply, const char *text,
                                  size_t n)
{
    struct llamacpp_state *state = reply->state;
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    buf_add_text(out, "data: ");
    open_completion(&w, text, n, false);
    json_add_int(&w, "tokens_predicted", ++state->predicted);
    json_add_int(&w, "tokens_evaluated", reply->prompt_tokens);
    json_close_object(&w);
    buf_add_text(out, "\n\n");
}

static void write_completion_last(struct buf *out, struct api_reply *reply,
                                  const struct api_usage *usage)
{
    const struct llamacpp_state *state = reply->state;
    struct json_writer w = json_write_to(out, JSON_COMPACT);
    buf_add_text(out, "data: ");
    open_completion(&w, "", 0, true);
    write_completion_end(&w, reply, state->finish, state->stopping_word, usage);
    buf_add_text(out, "\n\n");
}

static void keep_completion_end(struct llamacpp_state *state, const struct api_end *end)
{
    state->finish = end->finish;
    if (end->stop_text)
        snprintf(state->stopping_word, sizeof(state->stopping_word), "%.63s", end->stop_text);
}

static void write_completion_event(struct buf *out, struct api_reply *reply,
                                   const struct api_event *event)
{
    switch (event->type) {
    case API_EVENT_OPEN:
    case API_EVENT_START:
    case API_EVENT_CALL: break; /* it has no tools */
    case API_EVENT_THINKING:
    case API_EVENT_TEXT: write_completion_text(out, reply, event->text, event->n_text); break;
    case API_EVENT_END: keep_completion_end(reply->state, event->end); break;
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
