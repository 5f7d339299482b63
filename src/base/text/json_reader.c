/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/json_reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/limits.h"
#include "base/utf8.h"

struct json_reader {
    const char *text;
    size_t n, at;
    int depth;           /* containers that are open */
    const char *problem; /* the first error */
    bool no_memory;
};

static bool read_json_value(struct json_reader *r, json_object **out);

/* ---- errors ---- */

static bool fail_reading(struct json_reader *r, const char *problem)
{
    if (!r->problem) r->problem = problem;
    return false;
}

static bool fail_reading_memory(struct json_reader *r)
{
    r->no_memory = true;
    return fail_reading(r, "there is no memory for it");
}

/* Stores a new value; NULL means that json-c ran out of memory. */
static bool take_value(struct json_reader *r, json_object **out, json_object *value)
{
    *out = value;
    return value || fail_reading_memory(r);
}

/* ---- characters ---- */

/* Returns the next byte, or 0 at the end. A NUL in the text looks like the end, but JSON has none.
 */
static char peek(const struct json_reader *r)
{
    return r->at < r->n ? r->text[r->at] : 0;
}

static void skip_blanks(struct json_reader *r)
{
    while (r->at < r->n && (r->text[r->at] == ' ' || r->text[r->at] == '\n' ||
                            r->text[r->at] == '\r' || r->text[r->at] == '\t'))
        r->at++;
}

static bool fail_unexpected(struct json_reader *r, const char *wanted)
{
    return fail_reading(r, r->at == r->n ? "it ends in the middle of a value" : wanted);
}

static bool skip_word(struct json_reader *r, const char *word)
{
    size_t length = strlen(word);
    if (r->n - r->at < length || memcmp(r->text + r->at, word, length) != 0) return false;
    r->at += length;
    return true;
}

/* ---- strings ---- */

/* A string literal, without its quotes. */
struct json_literal {
    const char *text;
    size_t n;
    bool escaped; /* contains backslashes */
};

static bool find_literal(struct json_reader *r, struct json_literal *out)
{
    *out = (struct json_literal){.text = r->text + ++r->at};
    for (; r->at < r->n && r->text[r->at] != '"'; r->at++) {
        if (!r->text[r->at]) return fail_reading(r, "a NUL character in a string");
        if (r->text[r->at] != '\\') continue;
        out->escaped = true;
        if (++r->at == r->n) break;
    }
    if (r->at == r->n) return fail_unexpected(r, "");
    out->n = (size_t)(r->text + r->at++ - out->text);
    return true;
}

/* Returns the value of the four hex digits s[n] of \uXXXX, or -1 if they are malformed. */
static int32_t hex_unit(const char *s, size_t n)
{
    int32_t value = 0;
    if (n < 4) return -1;
    for (size_t i = 0; i < 4; i++) {
        int digit = hex_digit_value(s[i]);
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    return value;
}

static bool is_surrogate(int32_t unit, int32_t first)
{
    return unit >= first && unit < first + 0x400;
}

/* Decodes s[n], the text after "\u". Sets *used to the bytes consumed, or 0 if it is malformed. A
 * lone surrogate becomes U+FFFD. */
static uint32_t escaped_code_point(const char *s, size_t n, size_t *used)
{
    enum { HIGH = 0xd800, LOW = 0xdc00, REPLACEMENT = 0xfffd };
    int32_t unit = hex_unit(s, n);
    *used = unit < 0 ? 0 : 4;
    if (is_surrogate(unit, LOW)) return REPLACEMENT;
    if (!is_surrogate(unit, HIGH)) return (uint32_t)unit;
    int32_t low = n >= 10 && s[4] == '\\' && s[5] == 'u' ? hex_unit(s + 6, n - 6) : -1;
    if (!is_surrogate(low, LOW)) return REPLACEMENT;
    *used = 10;
    return 0x10000 + ((uint32_t)(unit - HIGH) << 10 | (uint32_t)(low - LOW));
}

/* Decodes s[n], an escape without its backslash, to 1 to 4 bytes in `out`. Returns their number, or
 * 0 if the escape is malformed. Sets *used to the bytes consumed. */
static size_t unescape_one(char out[4], const char *s, size_t n, size_t *used)
{
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *letter = memchr(letters, s[0], sizeof(letters) - 1);
    *used = 1;
    if (letter) {
        out[0] = values[letter - letters];
        return 1;
    }
    if (s[0] != 'u') return 0;
    uint32_t cp = escaped_code_point(s + 1, n - 1, used);
    if (!*used) return 0;
    ++*used;
    return (size_t)utf8_encode(cp, out);
}

/* Unescapes into memory of the literal's size, which suffices because no escape is shorter than the
 * character it stands for. Returns false if an escape is malformed. */
static bool unescape(char *out, size_t *n_out, const struct json_literal *literal)
{
    size_t n = 0, used;
    for (size_t i = 0; i < literal->n; i += used) {
        used = 1;
        if (literal->text[i] != '\\') {
            out[n++] = literal->text[i];
            continue;
        }
        size_t length = unescape_one(out + n, literal->text + i + 1, literal->n - i - 1, &used);
        if (!length) return false;
        n += length;
        used++;
    }
    out[n] = 0;
    *n_out = n;
    return true;
}

/* Returns an unescaped, NUL-terminated copy, which the caller frees. */
static char *copy_literal(struct json_reader *r, const struct json_literal *literal, size_t *n)
{
    char *text = malloc(literal->n + 1);
    if (!text) return fail_reading_memory(r), NULL;
    if (unescape(text, n, literal)) return text;
    free(text);
    fail_reading(r, "a malformed escape in a string");
    return NULL;
}

static bool read_json_string(struct json_reader *r, json_object **out)
{
    struct json_literal literal;
    if (!find_literal(r, &literal)) return false;
    size_t n = literal.n;
    char *copy = literal.escaped ? copy_literal(r, &literal, &n) : NULL;
    if (literal.escaped && !copy) return false;
    bool ok = take_value(r, out, json_object_new_string_len(copy ? copy : literal.text, (int)n));
    free(copy);
    return ok;
}

/* ---- numbers ---- */

static bool skip_digits(struct json_reader *r)
{
    size_t start = r->at;
    while (peek(r) >= '0' && peek(r) <= '9')
        r->at++;
    return r->at > start;
}

static bool skip_number(struct json_reader *r, bool *integer)
{
    *integer = true;
    if (peek(r) == '-') r->at++;
    bool zero = peek(r) == '0';
    if (zero)
        r->at++;
    else if (!skip_digits(r))
        return fail_unexpected(r, "a value is expected");
    if (peek(r) == '.') {
        *integer = false;
        r->at++;
        if (!skip_digits(r)) return fail_unexpected(r, "a digit is expected");
    }
    if (peek(r) == 'e' || peek(r) == 'E') {
        *integer = false;
        r->at++;
        if (peek(r) == '+' || peek(r) == '-') r->at++;
        if (!skip_digits(r)) return fail_unexpected(r, "a digit is expected");
    }
    return true;
}

/* Saturates beyond 64 bits; a value above INT64_MAX becomes unsigned. */
static json_object *integer_value(const char *text)
{
    if (text[0] == '-') return json_object_new_int64(strtoll(text, NULL, 10));
    uint64_t value = strtoull(text, NULL, 10);
    return value <= INT64_MAX ? json_object_new_int64((int64_t)value)
                              : json_object_new_uint64(value);
}

/* json-c keeps the spelling of floats for output. */
static bool read_number(struct json_reader *r, json_object **out)
{
    enum { SHORT = 64 };
    char buffer[SHORT];
    size_t start = r->at;
    bool integer;
    if (!skip_number(r, &integer)) return false;
    size_t n = r->at - start;
    char *text = n < SHORT ? buffer : malloc(n + 1);
    if (!text) return fail_reading_memory(r);
    memcpy(text, r->text + start, n);
    text[n] = 0;
    bool ok = take_value(
        r, out, integer ? integer_value(text) : json_object_new_double_s(strtod(text, NULL), text));
    if (text != buffer) free(text);
    return ok;
}

/* ---- true, false, null, NaN, Infinity ---- */

static bool read_word(struct json_reader *r, json_object **out)
{
    if (skip_word(r, "null")) return true;
    if (skip_word(r, "true")) return take_value(r, out, json_object_new_boolean(1));
    if (skip_word(r, "false")) return take_value(r, out, json_object_new_boolean(0));
    if (skip_word(r, "NaN")) return take_value(r, out, json_object_new_double_s(NAN, "NaN"));
    if (skip_word(r, "Infinity"))
        return take_value(r, out, json_object_new_double_s(INFINITY, "Infinity"));
    if (skip_word(r, "-Infinity"))
        return take_value(r, out, json_object_new_double_s(-INFINITY, "-Infinity"));
    return peek(r) == '-' || (peek(r) >= '0' && peek(r) <= '9')
               ? read_number(r, out)
               : fail_unexpected(r, "a value is expected");
}

/* ---- containers ---- */

static bool enter_container(struct json_reader *r)
{
    r->at++;
    skip_blanks(r);
    return ++r->depth < EY_MAX_JSON_DEPTH || fail_reading(r, "it is nested too deeply");
}

/* Reads the comma or closing bracket after an item. Sets *more if it is a comma. */
static bool end_json_item(struct json_reader *r, char closing, bool *more)
{
    skip_blanks(r);
    *more = peek(r) == ',';
    if (!*more && peek(r) != closing)
        return fail_unexpected(r, closing == ']' ? "a comma or ] is expected"
                                                 : "a comma or } is expected");
    r->at++;
    skip_blanks(r);
    return true;
}

static bool read_items(struct json_reader *r, json_object *array)
{
    for (bool more = true; more;) {
        json_object *item = NULL;
        bool ok = read_json_value(r, &item);
        if (ok && json_object_array_add(array, item) != 0) ok = fail_reading_memory(r);
        if (!ok) json_object_put(item);
        if (!ok || !end_json_item(r, ']', &more)) return false;
    }
    return true;
}

static bool read_json_array(struct json_reader *r, json_object **out)
{
    if (!take_value(r, out, json_object_new_array_ext(1)) || !enter_container(r)) return false;
    bool empty = peek(r) == ']';
    if (empty) r->at++;
    bool ok = empty || read_items(r, *out);
    if (ok) json_object_array_shrink(*out, 0);
    r->depth--;
    return ok;
}

/* Reads a member's name, which the caller frees, and the colon after it. */
static char *read_name(struct json_reader *r)
{
    struct json_literal literal;
    size_t n;
    if (peek(r) != '"') return fail_unexpected(r, "a name in double quotes is expected"), NULL;
    if (!find_literal(r, &literal)) return NULL;
    char *name = copy_literal(r, &literal, &n);
    if (!name) return NULL;
    skip_blanks(r);
    if (strlen(name) == n && peek(r) == ':') {
        r->at++;
        skip_blanks(r);
        return name;
    }
    if (strlen(name) != n)
        fail_reading(r, "a name with a NUL character");
    else
        fail_unexpected(r, "a colon is expected after a name");
    free(name);
    return NULL;
}

static bool read_member(struct json_reader *r, json_object *object)
{
    json_object *value = NULL;
    char *name = read_name(r);
    bool ok = name && read_json_value(r, &value);
    if (ok && json_object_object_add(object, name, value) != 0) ok = fail_reading_memory(r);
    if (!ok) json_object_put(value);
    free(name);
    return ok;
}

static bool read_members(struct json_reader *r, json_object *object)
{
    for (bool more = true; more;)
        if (!read_member(r, object) || !end_json_item(r, '}', &more)) return false;
    return true;
}

static bool read_json_object(struct json_reader *r, json_object **out)
{
    if (!take_value(r, out, json_object_new_object()) || !enter_container(r)) return false;
    bool empty = peek(r) == '}';
    if (empty) r->at++;
    bool ok = empty || read_members(r, *out);
    r->depth--;
    return ok;
}

/* The caller owns *out also on failure. */
static bool read_json_value(struct json_reader *r, json_object **out)
{
    *out = NULL;
    switch (peek(r)) {
    case '{': return read_json_object(r, out);
    case '[': return read_json_array(r, out);
    case '"': return read_json_string(r, out);
    default: return read_word(r, out);
    }
}

json_object *json_read(struct json_reading *reading, const char *text, size_t n)
{
    struct json_reader r = {.text = text, .n = n};
    json_object *value = NULL;
    skip_blanks(&r);
    if (!read_json_value(&r, &value)) {
        json_object_put(value);
        value = NULL;
    }
    skip_blanks(&r);
    *reading = (struct json_reading){r.at, r.problem, r.no_memory};
    return value;
}
