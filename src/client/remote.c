/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the server's models and sends requests to one of them. */
#include "client/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/text/json_writer.h"
#include "client/api_client.h"
#include "client/reply_stream.h"
#include "client/request_json.h"

enum { MAX_LISTING = 4 << 20, MAX_BODY = 1 << 30, MAX_NAMES = 400, MAX_VECTOR_REPLY = 16 << 20 };

struct remote {
    struct api_client *client;
    char *model;
    int max_model_len;
    bool truncates;           /* the server knows truncate_prompt_tokens, which others may reject */
    bool guards;              /* loop_guard is sent */
    ey_loop_guard loop_guard; /* of remote_options */
};

const char *remote_model(const struct remote *r)
{
    return r->model;
}

int remote_max_model_len(const struct remote *r)
{
    return r->max_model_len;
}

/* ---- models ---- */

/* A reply that is not streamed. */
struct whole_reply {
    struct buf bytes;
    bool (*go_on)(void); /* or NULL */
};

static bool take_whole_reply(void *user, const char *bytes, size_t n, ey_err *e)
{
    struct whole_reply *reply = user;
    return buf_add(&reply->bytes, bytes, n) ||
           ey_fail(e, EY_IO, "the server's reply is longer than %zu bytes", reply->bytes.max);
}

static const char *id_of(const json_object *model)
{
    json_object *id = json_member_of_type(model, "id", json_type_string);
    return id ? json_object_get_string(id) : "";
}

/* Returns whether the server is `name`: eyelet and vLLM name themselves as their models' owners. */
static bool is_owned_by(const json_object *model, const char *name)
{
    json_object *owner = json_member_of_type(model, "owned_by", json_type_string);
    return owner && strcmp(json_object_get_string(owner), name) == 0;
}

/* Sets the guard that requests carry. Fails if the guard is on and the server is not eyelet. */
static bool set_loop_guard(struct remote *r, const json_object *model, const ey_loop_guard *guard,
                           ey_err *e)
{
    r->guards = guard && is_owned_by(model, "eyelet");
    if (guard) r->loop_guard = *guard;
    return r->guards || !guard || !guard->max_pattern ||
           ey_fail(e, EY_BAD_REQUEST, "--loop-guard needs an eyelet server, which %.200s is not",
                   api_client_url(r->client));
}

static bool fail_unknown_remote_model(json_object *models, const char *wanted, ey_err *e)
{
    struct buf names = buf_with_max(MAX_NAMES);
    size_t n = json_object_array_length(models), i = 0;
    for (;
         i < n && names.size + strlen(id_of(json_object_array_get_idx(models, i))) + 8 < MAX_NAMES;
         i++)
        buf_printf(&names, "%s%s", i ? ", " : "", id_of(json_object_array_get_idx(models, i)));
    ey_fail(e, EY_NOT_FOUND, "the server has no model %.200s; it has %s%s", wanted,
            names.size ? names.data : "none", i < n ? " …" : "");
    buf_free(&names);
    return false;
}

static bool pick_model(struct remote *r, json_object *models, const struct remote_options *options,
                       ey_err *e)
{
    const char *wanted = options->model;
    for (size_t i = 0; i < json_object_array_length(models); i++) {
        const json_object *model = json_object_array_get_idx(models, i);
        json_object *length = json_member_of_type(model, "max_model_len", json_type_int);
        if (wanted ? strcmp(id_of(model), wanted) != 0 : !id_of(model)[0]) continue;
        int64_t tokens = length ? json_object_get_int64(length) : 0;
        r->max_model_len = tokens > 0 && tokens <= EY_MAX_CONTEXT ? (int)tokens : 0;
        r->truncates = is_owned_by(model, "eyelet") || is_owned_by(model, "vllm");
        r->model = strdup(id_of(model));
        if (!r->model) return ey_fail_memory(e, "the model's name", strlen(id_of(model)));
        return set_loop_guard(r, model, options->loop_guard, e);
    }
    if (wanted) return fail_unknown_remote_model(models, wanted, e);
    return ey_fail(e, EY_NOT_FOUND, "%.200s: the server has no model", api_client_url(r->client));
}

static bool find_remote_model(struct remote *r, const struct remote_options *options, ey_err *e)
{
    struct whole_reply listing = {buf_with_max(MAX_LISTING), NULL};
    struct api_call call = {.path = "/models", .take = take_whole_reply, .user = &listing};
    bool ok = api_client_call(r->client, &call, NULL, e);
    json_object *all = ok && listing.bytes.size
                           ? json_parse(listing.bytes.data, listing.bytes.size,
                                        "the server's list of models", EY_IO, NULL)
                           : NULL;
    json_object *models = json_member_of_type(all, "data", json_type_array);
    if (ok && !models)
        ok = ey_fail(e, EY_IO, "%.200s: this is not a server of the OpenAI API; check the address",
                     api_client_url(r->client));
    ok = ok && pick_model(r, models, options, e);
    json_object_put(all);
    buf_free(&listing.bytes);
    return ok;
}

bool remote_open(struct remote **out, const struct remote_options *options, ey_err *e)
{
    struct remote *r = calloc(1, sizeof(*r));
    *out = r;
    if (!r) return ey_fail_memory(e, "a server", sizeof(*r));
    bool ok = api_client_open(&r->client, options->url, options->key, e) &&
              find_remote_model(r, options, e);
    if (!ok) remote_close(out);
    return ok;
}

void remote_close(struct remote **remote)
{
    struct remote *r = *remote;
    if (!r) return;
    api_client_close(&r->client);
    free(r->model);
    free(r);
    *remote = NULL;
}

/* ---- asking ---- */

static bool take_reply(void *user, const char *bytes, size_t n, ey_err *e)
{
    return reply_stream_take(user, bytes, n, e);
}

static bool report_phase(void *user, uint64_t sent, uint64_t to_send)
{
    struct reply_stream *reply = user;
    if (sent < to_send) return reply_stream_tell(reply, EY_PHASE_SENDING, sent, to_send);
    return reply_stream_tell(reply, reply->first_token_at > 0 ? EY_PHASE_DECODE : EY_PHASE_WAITING,
                             0, 0);
}

/* Makes one call for an answer of at most max_tokens. */
static bool ask_server(struct remote *r, const ey_request *request,
                       const struct remote_response_format *format, int max_tokens,
                       ey_answer *answer, struct api_call_error *call_error, ey_err *e)
{
    struct buf body = buf_with_max(MAX_BODY);
    struct reply_stream reply = {0};
    *call_error = (struct api_call_error){0};
    const struct request_settings settings = {r->model, max_tokens,
                                              r->guards ? &r->loop_guard : NULL};
    bool ok = request_json(&body, request, format, &settings, e) &&
              reply_stream_open(&reply, request, answer, e);
    struct api_call call = {.path = "/chat/completions",
                            .body = &body,
                            .take = take_reply,
                            .go_on = report_phase,
                            .user = &reply};
    ok = ok && (api_client_call(r->client, &call, call_error, e) || reply.cancelled) &&
         reply_stream_finish(&reply, e);
    reply_stream_close(&reply);
    buf_free(&body);
    return ok;
}

/* The engine ends an answer where the context ends, but the API refuses a request whose answer
 * might not fit, with an error that has the length of the prompt. Returns how many tokens the
 * context leaves for the answer, or 0 if the call failed for another reason. */
static int remaining_context(const struct remote *r, const struct api_call_error *call_error,
                             int wanted)
{
    const char *value = strstr(call_error->message, "value=");
    if (call_error->status != 400 || strcmp(call_error->param, "input_tokens") != 0 || !value ||
        !r->max_model_len)
        return 0;
    long prompt = strtol(value + strlen("value="), NULL, 10);
    if (prompt <= 0 || prompt >= r->max_model_len) return 0;
    int n_left = r->max_model_len - (int)prompt;
    return n_left < wanted ? n_left : 0;
}

/* Finds the request's image for the server's field path "messages[0].content[1].image_url.url". */
static bool find_image(const ey_request *request, const char *param, size_t *image)
{
    size_t message, part;
    int length = 0;
    sscanf(param, "messages[%zu].content[%zu].image_url.url%n", &message, &part, &length);
    if (!length || message >= request->n_messages || part >= request->messages[message].n_parts)
        return false;
    *image = 0;
    for (size_t m = 0; m <= message; m++)
        for (size_t p = 0; p < (m < message ? request->messages[m].n_parts : part); p++)
            *image += request->messages[m].parts[p].type == EY_PART_IMAGE;
    return request->messages[message].parts[part].type == EY_PART_IMAGE;
}

static bool is_named(const ey_err *e, const char *name)
{
    size_t n = strlen(name);
    return strncmp(e->text, name, n) == 0 && e->text[n] == ':';
}

/* Sets the error's item as the engine does. In the message, which the server wrote, earlier
 * versions of eyelet say "picture" instead of "image". */
static void set_failed_image(const ey_request *request, const struct api_call_error *call_error,
                             ey_err *e)
{
    static const char *const words[] = {"image", "picture"};
    size_t image;
    if (!e || e->code != EY_BAD_IMAGE || !find_image(request, call_error->param, &image)) return;
    ey_fail_item(e, EY_ITEM_IMAGE, image, NULL);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        char numbered[32], alone[32];
        snprintf(numbered, sizeof(numbered), "%s %zu", words[i], image + 1);
        snprintf(alone, sizeof(alone), "the %s", words[i]);
        if (is_named(e, numbered)) ey_fail_item(e, EY_ITEM_IMAGE, image, numbered);
        if (is_named(e, alone)) ey_fail_item(e, EY_ITEM_IMAGE, image, alone);
    }
}

bool remote_ask(struct remote *r, const ey_request *request,
                const struct remote_response_format *format, ey_answer *answer, ey_err *e)
{
    struct api_call_error call_error;
    *answer = (ey_answer){0};
    if (ask_server(r, request, format, request->max_tokens, answer, &call_error, e)) return true;
    int n_left = remaining_context(r, &call_error, request->max_tokens);
    if (!n_left) {
        set_failed_image(request, &call_error, e);
        return false;
    }
    ey_answer_free(answer);
    return ask_server(r, request, format, n_left, answer, &call_error, e);
}

/* ---- vectors ---- */

static void write_embedded_part(struct json_writer *w, const ey_part *part)
{
    if (part->type == EY_PART_IMAGE) {
        json_write_key(w, "image");
        json_write_data_url(w, request_media_type(part), part->bytes, part->n_bytes);
    } else {
        json_write_key(w, "text");
        json_write_text(w, part->bytes, part->n_bytes);
    }
}

static void write_embedded(struct json_writer *w, const ey_pooling_input *input)
{
    const bool plain = input->n_parts == 1 && input->parts->type == EY_PART_TEXT &&
                       !input->n_instruction;
    json_write_key(w, "input");
    if (plain) {
        json_write_text(w, input->parts->bytes, input->parts->n_bytes);
        return;
    }
    json_open_object(w);
    for (size_t i = 0; i < input->n_parts; i++)
        write_embedded_part(w, &input->parts[i]);
    if (input->n_instruction) {
        json_write_key(w, "instruction");
        json_write_text(w, input->instruction, input->n_instruction);
    }
    json_close_object(w);
}

static void write_embed_request(struct buf *body, const struct remote *r,
                                const ey_pooling_input *input, int dimensions)
{
    struct json_writer w = json_write_to(body, JSON_COMPACT);
    uint64_t pixels = 0;
    for (size_t i = 0; i < input->n_parts; i++)
        pixels = input->parts[i].max_pixels ? input->parts[i].max_pixels : pixels;
    json_open_object(&w);
    json_add_string(&w, "model", r->model);
    write_embedded(&w, input);
    json_add_string(&w, "encoding_format", "float");
    if (r->truncates) json_add_int(&w, "truncate_prompt_tokens", -1);
    if (dimensions) json_add_int(&w, "dimensions", dimensions);
    if (pixels) {
        json_write_key(&w, "mm_processor_kwargs");
        json_open_object(&w);
        json_add_uint(&w, "max_pixels", pixels);
        json_close_object(&w);
    }
    json_close_object(&w);
}

static bool read_vector(struct remote_vector *out, json_object *reply, int dimensions, ey_err *e)
{
    json_object *data = json_member_of_type(reply, "data", json_type_array),
                *first = data ? json_object_array_get_idx(data, 0) : NULL,
                *vector = json_member_of_type(first, "embedding", json_type_array),
                *tokens = json_member_of_type(json_member(reply, "usage"), "prompt_tokens",
                                              json_type_int);
    const size_t n = vector ? json_object_array_length(vector) : 0;
    if (!n) return ey_fail(e, EY_IO, "the server's reply has no vector");
    if (dimensions && n != (size_t)dimensions)
        return ey_fail(e, EY_IO,
                       "the server's vector has %zu numbers, not %d: its model or program cannot "
                       "shorten vectors; leave --dimensions out",
                       n, dimensions);
    out->number = calloc(n, sizeof(*out->number));
    if (!out->number) return ey_fail_memory(e, "a vector", n * sizeof(*out->number));
    for (; out->n < n; out->n++) {
        json_object *number = json_object_array_get_idx(vector, out->n);
        if (!json_object_is_type(number, json_type_double) &&
            !json_object_is_type(number, json_type_int))
            return ey_fail(e, EY_IO, "element %zu of the server's vector is not a number", out->n);
        out->number[out->n] = (float)json_object_get_double(number);
    }
    out->prompt_tokens = tokens ? json_object_get_int(tokens) : 0;
    return true;
}

static bool vector_goes_on(void *user, uint64_t sent, uint64_t to_send)
{
    const struct whole_reply *reply = user;
    (void)sent;
    (void)to_send;
    return reply->go_on();
}

bool remote_embed(struct remote *r, const ey_pooling_input *input, int dimensions,
                  bool (*go_on)(void), struct remote_vector *out, ey_err *e)
{
    struct buf body = buf_with_max(MAX_BODY);
    struct whole_reply whole = {buf_with_max(MAX_VECTOR_REPLY), go_on};
    const struct api_call call = {.path = "/embeddings",
                                  .body = &body,
                                  .take = take_whole_reply,
                                  .go_on = vector_goes_on,
                                  .user = &whole};
    *out = (struct remote_vector){0};
    write_embed_request(&body, r, input, dimensions);
    bool ok = (!body.failed || ey_fail_memory(e, "the request", body.size)) &&
              api_client_call(r->client, &call, NULL, e);
    json_object *reply = ok ? json_parse(whole.bytes.data ? whole.bytes.data : "", whole.bytes.size,
                                         "the server's reply", EY_IO, e)
                            : NULL;
    ok = reply && read_vector(out, reply, dimensions, e);
    json_object_put(reply);
    buf_free(&whole.bytes);
    buf_free(&body);
    return ok;
}
