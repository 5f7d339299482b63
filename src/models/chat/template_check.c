/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for each text that a template may write in what the built-in format writes. */
#include "models/chat/template_check.h"

#include <string.h>

#include "models/chat/jinja_literals.h"

enum { SHOWN_BYTES = 64 }; /* bytes of a text shown in a message */

enum template_role { ROLE_NONE, ROLE_SYSTEM, ROLE_OTHER };

struct first_text {
    char text[SHOWN_BYTES]; /* empty if there is none */
};

struct template_check {
    const struct built_in_format *format;
    struct first_text system, tools, other, marker;
    bool thinking, default_system;
    enum template_role role; /* role of the following text, by the last role named */
    /* the tail, written by an `if add_generation_prompt` */
    struct buf tail;
    bool in_condition, negated; /* inside the tag of an if; the last name in it was "not" */
    bool in_tail, has_tail;
    int depth;             /* nesting depth of blocks within the tail */
    struct buf expression; /* texts of the current expression, possibly part of the tail */
    int tag;
};

static bool contains(const char *text, size_t n, const char *part)
{
    return memmem(text, n, part, strlen(part)) != NULL;
}

static bool literal_is(const struct jinja_literal *l, const char *name)
{
    return l->n == strlen(name) && memcmp(l->text, name, l->n) == 0;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80;
}

/* ---- words ---- */

static void keep_first(struct first_text *first, const char *text, size_t n)
{
    if (first->text[0]) return;
    if (n >= SHOWN_BYTES) {
        n = SHOWN_BYTES - 4;
        while (n && ((unsigned char)text[n] & 0xc0) == 0x80)
            n--; /* keep whole characters before the dots */
        memcpy(first->text + n, "...", 4);
    } else {
        first->text[n] = 0;
    }
    memcpy(first->text, text, n);
}

static bool has_letters(const char *text, size_t n)
{
    int found = 0;
    for (size_t i = 0; i < n; i++)
        found += is_letter(text[i]);
    return found > 1;
}

static bool is_in_format(const struct template_check *c, const char *text, size_t n)
{
    const struct buf *written = c->format->written;
    return memmem(written->data, written->size, text, n) != NULL;
}

struct words {
    const char *text;
    size_t n;
};

static bool is_inline_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct words trimmed(const char *text, size_t n)
{
    for (; n && is_inline_space(*text); n--)
        text++;
    while (n && is_inline_space(text[n - 1]))
        n--;
    return (struct words){text, n};
}

/* Returns the role of this name, or ROLE_NONE. */
static enum template_role role_named(struct words w)
{
    static const char *const others[] = {"user", "assistant", "tool", "[INST]"};
    if ((w.n == 6 && memcmp(w.text, "system", 6) == 0) || contains(w.text, w.n, "<<SYS>>"))
        return ROLE_SYSTEM;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (w.n == strlen(others[i]) && memcmp(w.text, others[i], w.n) == 0) return ROLE_OTHER;
    return ROLE_NONE;
}

static bool is_about_tools(struct words w)
{
    return contains(w.text, w.n, "# Tools") || contains(w.text, w.n, "function") ||
           contains(w.text, w.n, "tool_");
}

/* Checks a line of text between markers; it belongs to the role named last. */
static void check_words(struct template_check *c, const char *text, size_t n)
{
    struct words w = trimmed(text, n);
    enum template_role named = role_named(w);
    if (named) c->role = named;
    if (named || !has_letters(w.text, w.n) || is_in_format(c, w.text, w.n)) return;
    if (contains(w.text, w.n, "think>"))
        c->thinking = true;
    else
        keep_first(is_about_tools(w)        ? &c->tools
                   : c->role == ROLE_SYSTEM ? &c->system
                                            : &c->other,
                   w.text, w.n);
}

/* Returns the length of a marker such as "<|im_start|>" at the start of text[n], or 0. */
static size_t marker_length(const char *text, size_t n)
{
    if (n < 5 || text[0] != '<' || text[1] != '|') return 0;
    for (size_t i = 2; i + 1 < n && text[i] != '<' && text[i] != '\n'; i++)
        if (text[i] == '|' && text[i + 1] == '>') return i + 2;
    return 0;
}

static void check_text(struct template_check *c, const char *text, size_t n)
{
    const char *line = text, *end = text + n;
    if (c->format->default_system && contains(text, n, c->format->default_system))
        c->default_system = true;
    for (const char *at = text; at <= end;) {
        size_t marker = marker_length(at, (size_t)(end - at));
        if (at < end && !marker && *at != '\n') {
            at++;
            continue;
        }
        check_words(c, line, (size_t)(at - line));
        if (marker && !is_in_format(c, at, marker)) keep_first(&c->marker, at, marker);
        at += marker ? marker : 1;
        line = at;
    }
}

/* ---- the tail ---- */

/* Starts the tail: the text of `'…' if add_generation_prompt`, or the statement's block. */
static bool begin_tail(struct template_check *c, const struct jinja_literal *l)
{
    if (!literal_is(l, "add_generation_prompt") || c->negated || c->in_tail) return true;
    c->has_tail = true;
    if (l->expression) {
        bool ok = buf_add(&c->tail, c->expression.data, c->expression.size);
        buf_clear(&c->expression); /* a name that occurs twice takes the text only once */
        return ok;
    }
    c->in_tail = c->in_condition;
    c->depth = 0;
    return true;
}

static void follow_statement(struct template_check *c, const struct jinja_literal *l)
{
    bool opens = literal_is(l, "if") || literal_is(l, "for"),
         closes = literal_is(l, "endif") || literal_is(l, "endfor"),
         other = literal_is(l, "else") || literal_is(l, "elif");
    c->in_condition = literal_is(l, "if") || literal_is(l, "elif");
    if (!c->in_tail) return;
    if (opens) c->depth++;
    if ((closes || other) && !c->depth) c->in_tail = false;
    if (closes && c->depth) c->depth--;
}

static bool follow_tail(struct template_check *c, const struct jinja_literal *l)
{
    if (l->tag != c->tag) {
        buf_clear(&c->expression);
        c->negated = false;
        c->in_condition = false;
    }
    c->tag = l->tag;
    if (l->kind == JINJA_STATEMENT) follow_statement(c, l);
    if (l->kind == JINJA_NAME && !begin_tail(c, l)) return false;
    c->negated = l->kind == JINJA_NAME && literal_is(l, "not");
    if (l->kind != JINJA_TEXT) return true;
    return (!l->expression || buf_add(&c->expression, l->text, l->n)) &&
           (!c->in_tail || c->depth || (l->tag && !l->expression) ||
            buf_add(&c->tail, l->text, l->n));
}

/* ---- the whole template ---- */

static void check_literal(struct template_check *c, const struct jinja_literal *l)
{
    static const char *const names[] = {"enable_thinking", "reasoning_content", "thinking"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (l->kind == JINJA_NAME && literal_is(l, names[i])) c->thinking = true;
    if (l->kind != JINJA_TEXT && contains(l->text, l->n, "think>")) c->thinking = true;
    if (l->kind == JINJA_TEXT) {
        check_text(c, l->text, l->n);
        return;
    }
    enum template_role role = role_named((struct words){l->text, l->n});
    if (role || contains(l->text, l->n, "system")) c->role = role ? role : ROLE_SYSTEM;
}

/* Appends `before` and the text in quotes, with line ends escaped as in C. */
static void say(struct buf *out, const char *before, const char *text, size_t n)
{
    buf_printf(out, "%s%s", out->size ? "; " : "", before);
    if (!n) return;
    buf_add_text(out, " \"");
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\n')
            buf_add_text(out, "\\n");
        else
            buf_add(out, &text[i], 1);
    buf_add_text(out, "\"");
}

static void say_tail(struct buf *out, const struct template_check *c)
{
    const char *tail = c->format->tail;
    size_t n = c->tail.size, shown = n < SHOWN_BYTES ? n : SHOWN_BYTES;
    if (n == strlen(tail) && (!n || memcmp(c->tail.data, tail, n) == 0)) return;
    while (shown < n && shown && ((unsigned char)c->tail.data[shown] & 0xc0) == 0x80)
        shown--;
    if (n)
        say(out, "generation prompt", c->tail.data, shown);
    else
        say(out,
            c->has_tail ? "generation prompt: its own is not plain text"
                        : "generation prompt: it has none",
            NULL, 0);
}

static void say_differences(struct buf *out, const struct template_check *c)
{
    if (c->system.text[0])
        say(out, "default system prompt", c->system.text, strlen(c->system.text));
    else if (c->format->default_system && !c->default_system)
        say(out, "default system prompt: it has none, eyelet's is", c->format->default_system,
            strlen(c->format->default_system));
    if (c->thinking && !c->format->thinks) say(out, "thinking", NULL, 0);
    say_tail(out, c);
    if (c->tools.text[0]) say(out, "words about tools", c->tools.text, strlen(c->tools.text));
    if (c->marker.text[0]) say(out, "markers such as", c->marker.text, strlen(c->marker.text));
    if (c->other.text[0]) say(out, "other words", c->other.text, strlen(c->other.text));
}

bool template_differences(struct buf *out, const char *text, size_t n,
                          const struct built_in_format *format)
{
    struct template_check c = {
        .format = format, .tail = buf_with_max(n + 1), .expression = buf_with_max(n + 1)};
    struct jinja_reader r = jinja_reader_open(text, n);
    struct jinja_literal l;
    bool ok = true;
    while (ok && jinja_next(&r, &l)) {
        check_literal(&c, &l);
        ok = follow_tail(&c, &l);
    }
    ok = ok && !r.text.failed;
    if (ok) say_differences(out, &c);
    jinja_reader_close(&r);
    buf_free(&c.tail);
    buf_free(&c.expression);
    return ok && !out->failed;
}

bool template_writes(const char *text, size_t n, const char *wanted)
{
    struct jinja_reader r = jinja_reader_open(text, n);
    struct jinja_literal l;
    bool found = false;
    while (!found && jinja_next(&r, &l))
        found = l.kind == JINJA_TEXT && literal_is(&l, wanted);
    jinja_reader_close(&r);
    return found;
}
