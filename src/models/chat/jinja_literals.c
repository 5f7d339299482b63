/* SPDX-License-Identifier: Apache-2.0 */
/* A lexer of Jinja that only finds strings and names. A malformed template is read as far as
 * possible, never refused. */
#include "models/chat/jinja_literals.h"

#include <string.h>

#include "base/limits.h"

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name_part(char c)
{
    return is_name_start(c) || (c >= '0' && c <= '9');
}

struct jinja_reader jinja_reader_open(const char *text, size_t n)
{
    if (n && text[n - 1] == '\n') n--; /* keep_trailing_newline is off */
    return (struct jinja_reader){
        .at = text, .end = text + n, .text = buf_with_max(EY_MAX_TEXT_BYTES)};
}

void jinja_reader_close(struct jinja_reader *r)
{
    buf_free(&r->text);
}

/* ---- text outside tags ---- */

/* Returns the next "{{", "{%" or "{#", or `end`. */
static const char *find_tag(const char *at, const char *end)
{
    for (; at + 1 < end; at++)
        if (at[0] == '{' && (at[1] == '{' || at[1] == '%' || at[1] == '#')) return at;
    return end;
}

/* Returns the end of the text before the tag: a '-' strips all whitespace, lstrip_blocks the blanks
 * of an otherwise empty line. */
static const char *text_end(const char *first, const char *tag, const char *end, bool line_start)
{
    const char *at = tag;
    if (tag == end) return tag;
    if (tag + 2 < end && tag[2] == '-') {
        while (at > first && is_space(at[-1]))
            at--;
        return at;
    }
    if (tag[1] == '{' || (tag + 2 < end && tag[2] == '+')) return tag;
    while (at > first && (at[-1] == ' ' || at[-1] == '\t'))
        at--;
    return (at > first ? at[-1] == '\n' : line_start) ? at : tag;
}

/* Skips a comment, which strips following text like a statement. */
static void skip_comment(struct jinja_reader *r)
{
    const char *at = r->at + 2;
    while (at + 1 < r->end && !(at[0] == '#' && at[1] == '}'))
        at++;
    r->trim = at < r->end && at > r->at + 2 && at[-1] == '-';
    r->trim_line = true;
    r->at = at + 1 < r->end ? at + 2 : r->end;
}

/* Reads the text up to the next tag and opens the tag. Returns false if the text is empty. */
static bool read_text(struct jinja_reader *r)
{
    bool line_start = r->trim_line || r->trim;
    const char *first = r->at, *tag = find_tag(first, r->end);
    if (r->trim)
        while (first < tag && is_space(*first))
            first++;
    else if (r->trim_line && first < tag && *first == '\n')
        first++;
    else if (r->trim_line)
        line_start = false;
    const char *last = text_end(first, tag, r->end, line_start);
    bool ok = buf_add(&r->text, first, (size_t)(last - first));
    r->trim = r->trim_line = false;
    r->at = tag;
    if (tag < r->end && tag[1] == '#') {
        skip_comment(r);
    } else if (tag < r->end) {
        r->closing = tag[1] == '{' ? '}' : '%';
        r->n_tags++;
        r->at = tag + 2;
        memset(r->before, 0, sizeof(r->before));
        if (r->at < r->end && (*r->at == '-' || *r->at == '+')) r->at++;
    }
    return ok && last > first;
}

/* ---- tags ---- */

static char unescaped(char c)
{
    static const char from[] = "ntrbf", to[] = "\n\t\r\b\f";
    const char *found = c ? strchr(from, c) : NULL;
    return found ? to[found - from] : c;
}

static bool read_string_literal(struct jinja_reader *r)
{
    char quote = *r->at++;
    bool ok = true;
    for (; r->at < r->end && *r->at != quote; r->at++) {
        char c = *r->at;
        if (c == '\\' && r->at + 1 < r->end) c = unescaped(*++r->at);
        ok = buf_add(&r->text, &c, 1) && ok;
    }
    if (r->at < r->end) r->at++;
    return ok;
}

static void note_before(struct jinja_reader *r, const char *token, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        r->before[0] = r->before[1];
        r->before[1] = r->before[2];
        r->before[2] = token[i];
    }
}

/* Whether, by its surroundings, a string is written rather than compared, used as an index or
 * passed to a function. */
static bool is_written(const struct jinja_reader *r, const char *behind)
{
    const char last = r->before[2], second = r->before[1];
    while (behind < r->end && is_space(*behind))
        behind++;
    if (last == '[' || (last == '=' && (second == '=' || second == '!'))) return false;
    if (last == '(' && is_name_part(second)) return false;
    if (second == 'i' && last == 'n' && !is_name_part(r->before[0])) return false;
    size_t left = (size_t)(r->end - behind);
    return !(left > 1 && (behind[0] == ']' || (behind[1] == '=' && strchr("=!", behind[0])))) &&
           !(left > 3 && memcmp(behind, "in ", 3) == 0) &&
           !(left > 7 && memcmp(behind, "not in ", 7) == 0);
}

/* Closes the tag at "-%}", "%}" or "}}". */
static bool close_tag(struct jinja_reader *r)
{
    const char *at = r->at;
    bool trim = *at == '-';
    if ((trim || *at == '+') && at + 1 < r->end) at++;
    if (at + 1 >= r->end || at[0] != r->closing || at[1] != '}') return false;
    r->trim = trim;
    r->trim_line = r->closing == '%' && *r->at != '+';
    r->closing = 0;
    r->at = at + 2;
    return true;
}

/* Reads the next string or name of a tag. Returns false at the end of the tag or template. */
static bool read_tag(struct jinja_reader *r, struct jinja_literal *out)
{
    while (r->at < r->end) {
        const char *first = r->at;
        if (close_tag(r)) return false;
        if (*first == '"' || *first == '\'') {
            bool ok = read_string_literal(r);
            out->kind = is_written(r, r->at) ? JINJA_TEXT : JINJA_OTHER;
            note_before(r, "\"", 1);
            return ok;
        }
        if (is_name_start(*first)) {
            while (r->at < r->end && is_name_part(*r->at))
                r->at++;
            out->kind = r->closing == '%' && !r->before[2] ? JINJA_STATEMENT : JINJA_NAME;
            note_before(r, " ", 1);
            note_before(r, first, (size_t)(r->at - first));
            return buf_add(&r->text, first, (size_t)(r->at - first));
        }
        if (!is_space(*first)) note_before(r, first, 1);
        r->at++;
    }
    r->closing = 0;
    return false;
}

bool jinja_next(struct jinja_reader *r, struct jinja_literal *out)
{
    bool found = false;
    *out = (struct jinja_literal){.kind = JINJA_TEXT};
    while (!found && !r->text.failed && r->at < r->end) {
        buf_clear(&r->text);
        out->tag = r->closing ? r->n_tags : 0;
        out->expression = r->closing == '}';
        found = r->closing ? read_tag(r, out) : read_text(r);
    }
    out->text = r->text.data ? r->text.data : "";
    out->n = r->text.size;
    return found && !r->text.failed;
}
