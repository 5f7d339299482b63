/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/responses: new responses with their references, and stored ones. */
#include "server/api/openai_responses/responses_routes.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/text/json_writer.h"
#include "server/api/common/completion.h"
#include "server/api/openai_responses/responses_dialect.h"
#include "server/server.h"

/* ---- owners ---- */

/* The owner is the digest of the request's API key. Without keys all responses are shared. */
static void find_owner(const struct server *server, struct exchange *x, unsigned char *owner)
{
    const char *authorization = exchange_request_header(x, "Authorization"),
               *key = exchange_request_header(x, "X-Api-Key");
    bool any = server->options->keys.n || server->options->api_key_file;
    memset(owner, 0, RESPONSES_OWNER_BYTES);
    if (authorization && strncasecmp(authorization, "Bearer ", 7) == 0)
        key = authorization + 7 + strspn(authorization + 7, " ");
    if (!any || !key) return;
    size_t n = strlen(key);
    while (n && strchr(" \t", key[n - 1]))
        n--;
    SHA256((const unsigned char *)key, n, owner);
}

/* ---- references ---- */

static bool fail_response_memory(struct completion *a, struct exchange *x)
{
    api_fail_memory(&a->error);
    completion_fail(a, x);
    return false;
}

/* Appends the items of a JSON array, or of a response's output, to `out`. */
static bool append_stored(struct completion *a, struct exchange *x, json_object *out,
                          const char *text, bool is_response)
{
    size_t n = strlen(text);
    ey_err e;
    if (!exchange_charge(x, api_json_bytes(text, n))) return false;
    json_object *whole = json_parse(text, n, "the kept response", EY_NO_MEMORY, &e),
                *items = is_response ? json_member(whole, "output") : whole;
    bool ok = json_object_is_type(items, json_type_array);
    for (size_t i = 0; ok && i < json_object_array_length(items); i++) {
        json_object *item = json_object_get(json_object_array_get_idx(items, i));
        ok = json_object_array_add(out, item) == 0;
        if (!ok) json_object_put(item);
    }
    json_object_put(whole);
    return ok || fail_response_memory(a, x);
}

static bool fail_gone(struct completion *a, struct exchange *x, const char *id)
{
    api_fail(&a->error, "previous_response_id", "Previous response with id '%.60s' not found.", id);
    snprintf(a->error.type, sizeof(a->error.type), "%s", RESPONSES_PREVIOUS_GONE);
    completion_fail(a, x);
    return false;
}

static bool append_response(struct completion *a, struct exchange *x, json_object *out,
                            const char *id)
{
    const struct responses_state *s = a->reply.state;
    struct stored_response kept;
    if (!responses_store_get(s->store, s->owner, id, seconds_now(), &kept))
        return fail_gone(a, x, s->previous_id);
    bool ok = append_stored(a, x, out, kept.input, false) &&
              append_stored(a, x, out, kept.response, true);
    responses_store_free(&kept);
    return ok;
}

/* Appends the items of the responses, oldest first. Only one response's copy exists at a time, so
 * the largest is charged. */
static bool append_conversation(struct completion *a, struct exchange *x, json_object *out,
                                const struct stored_link *link, size_t n)
{
    size_t largest = 0;
    for (size_t i = 0; i < n; i++)
        if (link[i].n_bytes > largest) largest = link[i].n_bytes;
    bool ok = exchange_charge(x, largest);
    for (size_t i = n; ok && i > 0; i--)
        ok = append_response(a, x, out, link[i - 1].id);
    return ok;
}

/* Finds the response and its predecessors, newest first. Returns their number, 0 if one is gone. */
static size_t collect_kept(struct completion *a, const char *id, struct stored_link *link)
{
    const struct responses_state *s = a->reply.state;
    size_t n = 0;
    while (id[0] && n < RESPONSES_STORE_COUNT && s->store &&
           responses_store_find(s->store, s->owner, id, seconds_now(), &link[n]))
        id = link[n++].previous;
    return id[0] ? 0 : n;
}

/* Replaces previous_response_id by the items of that response and its predecessors. On an error,
 * answers the exchange and returns false. */
static bool resolve_previous(struct completion *a, struct exchange *x)
{
    struct responses_state *s = a->reply.state;
    json_object *json = api_request_json(&a->request),
                *value = json_member(json, "previous_response_id");
    if (!value) return true;
    const char *id = json_object_is_type(value, json_type_string) ? json_object_get_string(value)
                                                                  : "";
    if (!id[0] || strlen(id) >= sizeof(s->previous_id)) return fail_gone(a, x, id);
    snprintf(s->previous_id, sizeof(s->previous_id), "%s", id);
    struct stored_link *link = calloc(RESPONSES_STORE_COUNT, sizeof(*link));
    json_object *items = json_object_new_array();
    size_t n = link ? collect_kept(a, s->previous_id, link) : 0;
    bool ok = !link || !items ? fail_response_memory(a, x)
              : n             ? append_conversation(a, x, items, link, n)
                              : fail_gone(a, x, s->previous_id);
    if (ok && json_object_object_add(json, "previous_response_id", items) != 0)
        ok = fail_response_memory(a, x);
    if (!ok) json_object_put(items);
    free(link);
    return ok;
}

static bool is_reference(json_object *item)
{
    json_object *type = json_member(item, "type");
    if (type) return field_text_is(type, "item_reference");
    return json_member(item, "id") && !json_member(item, "role");
}

/* Returns the item of a response's output with this id, or NULL. */
static json_object *item_of_response(const char *response, size_t n, const char *id)
{
    json_object *found = NULL;
    ey_err e;
    json_object *whole = json_parse(response, n, "the kept response", EY_NO_MEMORY, &e),
                *output = json_member(whole, "output");
    for (size_t i = 0; output && i < json_object_array_length(output) && !found; i++) {
        json_object *item = json_object_array_get_idx(output, i);
        if (field_text_is(json_member(item, "id"), id)) found = json_object_get(item);
    }
    json_object_put(whole);
    return found;
}

/* Sets *found to a copy of a stored item, or to NULL if there is none. Charges the memory of the
 * whole response, which is parsed. On an error, answers the exchange and returns false. */
static bool find_kept_item(struct completion *a, struct exchange *x, const char *id,
                           json_object **found)
{
    const struct responses_state *s = a->reply.state;
    struct stored_response kept;
    struct stored_link link;
    *found = NULL;
    if (!s->store || !responses_store_find_item(s->store, s->owner, id, seconds_now(), &link))
        return true;
    if (!exchange_charge(x, link.n_bytes)) return false;
    if (!responses_store_get(s->store, s->owner, link.id, seconds_now(), &kept)) return true;
    size_t n = strlen(kept.response);
    bool charged = exchange_charge(x, api_json_bytes(kept.response, n));
    if (charged) *found = item_of_response(kept.response, n, id);
    responses_store_free(&kept);
    return charged;
}

/* Replaces references in `input` by the stored items. On an error, such as 404 for an unknown item,
 * answers the exchange and returns false. */
static bool resolve_item_references(struct completion *a, struct exchange *x)
{
    json_object *input = json_member(api_request_json(&a->request), "input");
    size_t n = json_object_is_type(input, json_type_array) ? json_object_array_length(input) : 0;
    for (size_t i = 0; i < n; i++) {
        json_object *item = json_object_array_get_idx(input, i), *id = json_member(item, "id");
        if (!is_reference(item)) continue;
        const char *name = json_object_is_type(id, json_type_string) ? json_object_get_string(id)
                                                                     : "";
        json_object *found;
        if (!find_kept_item(a, x, name, &found)) return false;
        if (found && json_object_array_put_idx(input, i, found) == 0) continue;
        json_object_put(found);
        char param[64], message[256];
        snprintf(param, sizeof(param), "input[%zu]", i);
        snprintf(message, sizeof(message), RESPONSES_ITEM_GONE, name);
        api_fail_status(&a->error, 404, param, message);
        completion_fail(a, x);
        return false;
    }
    return true;
}

/* ---- new responses ---- */

/* On an error, answers the exchange and returns NULL. */
static struct completion *open_response(struct server *server, struct exchange *x,
                                        enum responses_kind kind)
{
    struct completion *a = completion_parse(server, x, &responses_dialects[kind]);
    if (!a) return NULL;
    struct responses_state *s = a->reply.state;
    s->store = server->responses;
    find_owner(server, x, s->owner);
    if (resolve_previous(a, x) && resolve_item_references(a, x))
        return completion_read(a, x) ? a : NULL;
    completion_close(a);
    return NULL;
}

void route_responses(struct server *server, struct exchange *x)
{
    struct completion *a = open_response(server, x, RESPONSES_CREATE);
    if (a) completion_answer(a, x);
}

void route_responses_count(struct server *server, struct exchange *x)
{
    struct completion *a = open_response(server, x, RESPONSES_COUNT);
    if (!a) return;
    if (!completion_reply_input_tokens(a, x, "response.input_tokens")) completion_fail(a, x);
    completion_close(a);
}

/* ---- stored responses ---- */

static void fail_not_kept(struct exchange *x, const char *id)
{
    exchange_fail(x, 404, NULL, NULL,
                  "Response with id '%.60s' not found. Responses are kept for a while only.", id);
}

static void reply_kept_text(struct exchange *x, const char *text)
{
    struct buf out = buf_with_max(EY_MAX_RESPONSE_BYTES);
    buf_add_text(&out, text);
    exchange_reply(x, 200, "application/json", &out);
    buf_free(&out);
}

static void reply_input_items(struct exchange *x, const char *items)
{
    struct buf out = buf_with_max(EY_MAX_RESPONSE_BYTES);
    struct json_writer w = json_write_to(&out, JSON_COMPACT);
    ey_err e;
    json_object *list = json_parse(items, strlen(items), "the kept items", EY_NO_MEMORY, &e);
    size_t n = list ? json_object_array_length(list) : 0;
    json_open_object(&w);
    json_add_string(&w, "object", "list");
    json_write_key(&w, "data");
    json_open_array(&w); /* newest first */
    for (size_t i = n; i > 0; i--)
        json_write_value(&w, json_object_array_get_idx(list, i - 1));
    json_close_array(&w);
    json_write_key(&w, "first_id");
    json_write_value(&w, n ? json_member(json_object_array_get_idx(list, n - 1), "id") : NULL);
    json_write_key(&w, "last_id");
    json_write_value(&w, n ? json_member(json_object_array_get_idx(list, 0), "id") : NULL);
    json_add_bool(&w, "has_more", false);
    json_close_object(&w);
    json_object_put(list);
    exchange_reply(x, 200, "application/json", &out);
    buf_free(&out);
}

void route_stored_response(struct server *server, struct exchange *x)
{
    static const char items[] = "/input_items";
    unsigned char owner[RESPONSES_OWNER_BYTES];
    char id[RESPONSES_ID_BYTES] = "";
    struct stored_response kept;
    const char *argument = exchange_argument(x), *rest = strchr(argument, '/');
    size_t n = rest ? (size_t)(rest - argument) : strlen(argument);
    bool wants_items = rest && !strcmp(rest, items);
    if (n < sizeof(id)) snprintf(id, sizeof(id), "%.*s", (int)n, argument);
    find_owner(server, x, owner);
    if ((rest && rest[1] && !wants_items) || !id[0] ||
        !responses_store_get(server->responses, owner, id, seconds_now(), &kept)) {
        fail_not_kept(x, argument);
        return;
    }
    const char *text = wants_items ? kept.input : kept.response;
    size_t n_text = strlen(text);
    if (exchange_charge(x, n_text + (wants_items ? api_json_bytes(text, n_text) : n_text))) {
        if (wants_items)
            reply_input_items(x, text);
        else
            reply_kept_text(x, text);
    }
    responses_store_free(&kept);
}

void route_delete_response(struct server *server, struct exchange *x)
{
    unsigned char owner[RESPONSES_OWNER_BYTES];
    struct buf out = buf_with_max(1024);
    const char *id = exchange_argument(x);
    find_owner(server, x, owner);
    if (!responses_store_delete(server->responses, owner, id, seconds_now())) {
        fail_not_kept(x, id);
        return;
    }
    struct json_writer w = json_write_to(&out, JSON_COMPACT);
    json_open_object(&w);
    json_add_string(&w, "id", id);
    json_add_string(&w, "object", "response");
    json_add_bool(&w, "deleted", true);
    json_close_object(&w);
    exchange_reply(x, 200, "application/json", &out);
    buf_free(&out);
}

/* Handles POST below /v1/responses/ID. */
void route_responses_other(struct server *server, struct exchange *x)
{
    const char *argument = exchange_argument(x), *rest = strchr(argument, '/');
    (void)server;
    if (rest && !strcmp(rest, "/cancel"))
        exchange_fail(x, 400, NULL, NULL,
                      "Only responses created with background=true can be cancelled");
    else
        exchange_fail(x, 404, NULL, NULL, "there is no /v1/responses/%.100s", argument);
}
