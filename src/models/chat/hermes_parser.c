/* SPDX-License-Identifier: Apache-2.0 */
/* Parses Hermes tool calls in an answer's text. */
#include "models/chat/hermes_parser.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"
#include "models/chat/hermes.h"

struct hermes_parser {
    struct buf text;    /* text not returned yet */
    size_t n_taken;     /* bytes of it returned by the last call; dropped with the next text */
    size_t json_start;  /* in a call, where its JSON begins; otherwise 0 */
    size_t search_from; /* in a call, where to search for its end */
    int n_calls;
    bool single; /* only the first call is returned */
    bool ended;
    struct buf name, arguments; /* of the last returned call */
};

void *hermes_parser_open(bool single)
{
    struct hermes_parser *t = calloc(1, sizeof(*t));
    if (!t) return NULL;
    t->single = single;
    t->text = buf_with_max(EY_MAX_TEXT_BYTES);
    t->name = buf_with_max(EY_MAX_TEXT_BYTES);
    t->arguments = buf_with_max(EY_MAX_TEXT_BYTES);
    return t;
}

void hermes_parser_close(void *state)
{
    struct hermes_parser *t = state;
    if (!t) return;
    buf_free(&t->text);
    buf_free(&t->name);
    buf_free(&t->arguments);
    free(t);
}

/* Drops text that was returned. */
static void drop_taken(struct hermes_parser *t)
{
    if (!t->n_taken) return;
    memmove(t->text.data, t->text.data + t->n_taken, t->text.size - t->n_taken + 1);
    t->text.size -= t->n_taken;
    t->n_taken = 0;
}

bool hermes_parser_add(void *state, const char *text, size_t n)
{
    struct hermes_parser *t = state;
    drop_taken(t);
    return buf_add(&t->text, text, n);
}

void hermes_parser_end(void *state)
{
    struct hermes_parser *t = state;
    t->ended = true;
}

static bool is_tool_call_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Returns the length of text[n] without trailing whitespace. */
static size_t tool_call_trimmed_length(const char *text, size_t n)
{
    while (n && is_tool_call_space(text[n - 1]))
        n--;
    return n;
}

static bool give_text(struct hermes_parser *t, ey_answer_piece *piece, size_t n)
{
    *piece = (ey_answer_piece){.text = t->text.data, .n_text = n};
    t->n_taken = n;
    t->json_start = 0;
    return n > 0;
}

/* ---- a call's JSON ---- */

/* Returns the offset after the string that opens at text[at], or n + 1 if it is not closed. */
static size_t tool_call_string_end(const char *text, size_t n, size_t at)
{
    for (at++; at < n && text[at] != '"'; at++)
        at += text[at] == '\\';
    return at < n ? at + 1 : n + 1;
}

static bool ends_in_string(const char *text, size_t n)
{
    size_t at = 0;
    while (at < n)
        at = text[at] == '"' ? tool_call_string_end(text, n, at) : at + 1;
    return at > n;
}

/* Returns the offset after the value at text[at] of well-formed JSON. */
static size_t tool_call_value_end(const char *text, size_t n, size_t at)
{
    size_t depth = 0;
    do {
        char c = text[at];
        if (c == '"') {
            at = tool_call_string_end(text, n, at);
            continue;
        }
        if (!depth && (c == ',' || c == '}' || is_tool_call_space(c))) break;
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        at++;
    } while (at < n && (depth || !strchr("}]\"", text[at - 1])));
    return at;
}

static size_t skip_tool_call_separators(const char *text, size_t n, size_t at)
{
    while (at < n && (is_tool_call_space(text[at]) || text[at] == ':' || text[at] == ','))
        at++;
    return at;
}

/* Finds the spelling of "arguments" in a well-formed JSON object, so that numbers too large for C
 * types stay exact. */
static bool arguments_spelling(const char *text, size_t n, size_t *at, size_t *length)
{
    static const char key[] = "\"arguments\"";
    bool found = false;
    size_t i = skip_tool_call_separators(text, n, 0) + 1; /* past the brace */
    for (i = skip_tool_call_separators(text, n, i); i < n && text[i] == '"';
         i = skip_tool_call_separators(text, n, i)) {
        size_t name = i, name_end = tool_call_string_end(text, n, i);
        size_t value = skip_tool_call_separators(text, n, name_end),
               end = tool_call_value_end(text, n, value);
        if (name_end - name == sizeof(key) - 1 && memcmp(text + name, key, sizeof(key) - 1) == 0) {
            *at = value;
            *length = end - value;
            found = true;
        } /* the last of several counts, as for the JSON parser */
        i = end;
    }
    return found;
}

static bool copy_arguments(struct hermes_parser *t, json_object *call, const char *text, size_t n)
{
    json_object *arguments = json_member(call, "arguments");
    size_t at, length;
    buf_clear(&t->arguments);
    bool twice = json_object_is_type(arguments,
                                     json_type_string); /* arguments encoded as a JSON string */
    if (!arguments || (twice && !json_object_get_string_len(arguments)))
        return buf_add_text(&t->arguments, "{}");
    if (twice)
        return buf_add(&t->arguments, json_object_get_string(arguments),
                       (size_t)json_object_get_string_len(arguments));
    if (!json_object_is_type(arguments, json_type_object) ||
        !arguments_spelling(text, n, &at, &length))
        return false;
    return buf_add(&t->arguments, text + at, length);
}

/* Reads {"name", "arguments"} into t->name and t->arguments. */
static bool read_call(struct hermes_parser *t, const char *text, size_t n)
{
    json_object *call = json_parse(text, n, "a tool call", EY_BAD_REQUEST, NULL);
    json_object *name = json_member_of_type(call, "name", json_type_string);
    buf_clear(&t->name);
    bool ok = name && json_object_get_string_len(name) > 0 &&
              buf_add(&t->name, json_object_get_string(name),
                      (size_t)json_object_get_string_len(name)) &&
              copy_arguments(t, call, text, n);
    json_object_put(call);
    return ok;
}

/* ---- pieces ---- */

static bool give_call(struct hermes_parser *t, ey_answer_piece *piece, size_t end)
{
    t->n_taken = end;
    t->json_start = 0;
    *piece = (ey_answer_piece){.call = true,
                               .index = t->n_calls++,
                               .name = t->name.data,
                               .arguments = t->arguments.data,
                               .n_arguments = t->arguments.size};
    return !t->single || piece->index == 0;
}

/* Looks for the end of the current call. An end mark inside a JSON string does not count. */
static bool next_in_call(struct hermes_parser *t, ey_answer_piece *piece)
{
    const char *text = t->text.data;
    size_t size = t->text.size, close = strlen(HERMES_CALL_END);
    for (const char *at;
         (at = memmem(text + t->search_from, size - t->search_from, HERMES_CALL_END, close));) {
        size_t end = (size_t)(at - text);
        if (read_call(t, text + t->json_start, end - t->json_start))
            return give_call(t, piece, end + close);
        if (!ends_in_string(text + t->json_start, end - t->json_start))
            return give_text(t, piece, end + close);
        t->search_from = end + close;
    }
    if (t->search_from + close <= size) t->search_from = size - close + 1;
    if (!t->ended) return false;
    if (read_call(t, text + t->json_start, size - t->json_start)) return give_call(t, piece, size);
    return give_text(t, piece, size);
}

/* Returns the trailing bytes of text[n] that may still precede a call or begin its mark. */
static size_t n_undecided(const char *text, size_t n)
{
    size_t mark = strlen(HERMES_CALL_START) - 1 < n ? strlen(HERMES_CALL_START) - 1 : n;
    while (mark && memcmp(text + n - mark, HERMES_CALL_START, mark) != 0)
        mark--;
    return n - tool_call_trimmed_length(text, n - mark);
}

static bool next_in_text(struct hermes_parser *t, ey_answer_piece *piece)
{
    const char *text = t->text.data;
    size_t size = t->text.size, n;
    const char *open = memmem(text, size, HERMES_CALL_START, strlen(HERMES_CALL_START));
    if (open) {
        t->json_start = t->search_from = (size_t)(open - text) + strlen(HERMES_CALL_START);
        n = tool_call_trimmed_length(text, (size_t)(open - text));
        if (!n) return next_in_call(t, piece);
        t->json_start = 0; /* parsed again after this text was returned */
        return give_text(t, piece, n);
    }
    n = size - (t->ended ? 0 : n_undecided(text, size));
    if (t->ended && t->n_calls && !tool_call_trimmed_length(text, size)) return false;
    return give_text(t, piece, n);
}

bool hermes_parser_next(void *state, ey_answer_piece *piece)
{
    struct hermes_parser *t = state;
    bool given;
    do {
        drop_taken(t);
        if (!t->text.size) return false;
        given = t->json_start ? next_in_call(t, piece) : next_in_text(t, piece);
    } while (!given && t->n_taken); /* skips a call that is left out */
    return given;
}
