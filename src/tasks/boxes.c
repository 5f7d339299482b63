/* SPDX-License-Identifier: Apache-2.0 */
/* A lenient parser of JSON-like answers, in one pass and with a bounded stack instead of recursion.
 * Text outside of braces is ignored. Inside, both kinds of quotes open a string, and parts that
 * cannot be parsed are skipped. */
#include "eyelet/tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/utf8.h"

enum { SHOWN_BYTES = 200 }; /* bytes of an answer that an error quotes */

#define SCALE 1000.0 /* Qwen3-VL's coordinates are thousandths of width and height */

struct boxes_span {
    const char *text; /* as written, with its escapes; NULL if there is none */
    size_t n;
};

enum boxes_key { KEY_OTHER, KEY_BOX, KEY_LABEL };

struct boxes_frame {
    bool list;      /* else an object */
    bool has_value; /* object: a key was read, its value comes next */
    enum boxes_key key;
    bool has_box;
    double box[4];
    struct boxes_span label;
};

struct boxes_reader {
    const char *at, *end;
    struct boxes_frame frame[EY_MAX_JSON_DEPTH];
    size_t depth;
    ey_box_list *list;
    struct arena *memory; /* of the list */
};

static bool boxes_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static bool boxes_is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static const char *boxes_skip_space(const char *at, const char *end)
{
    while (at < end && boxes_is_space(*at))
        at++;
    return at;
}

/* ---- strings ---- */

/* Reads the string whose opening quote is at r->at. Only a quote that is followed by one of
 * `closers` or by the end of the text ends it, because labels have apostrophes and models forget
 * escapes. */
static struct boxes_span read_string(struct boxes_reader *r, const char *closers)
{
    char quote = *r->at++;
    const char *start = r->at;
    for (; r->at < r->end; r->at++) {
        if (*r->at == '\\' && r->at + 1 < r->end) {
            r->at++;
            continue;
        }
        if (*r->at != quote) continue;
        const char *next = boxes_skip_space(r->at + 1, r->end);
        if (next == r->end || (*next && strchr(closers, *next)))
            return (struct boxes_span){start, (size_t)(r->at++ - start)};
    }
    return (struct boxes_span){start, (size_t)(r->end - start)};
}

/* Returns the value of four hexadecimal digits at s, or -1. */
static long read_hex(const char *s, size_t n)
{
    char digits[5] = "";
    if (n < 4) return -1;
    memcpy(digits, s, 4);
    return strspn(digits, "0123456789abcdefABCDEF") == 4 ? strtol(digits, NULL, 16) : -1;
}

/* Decodes the \u escape at s (after the backslash) and writes its length in bytes to *used. Half a
 * surrogate pair becomes U+FFFD. */
static uint32_t unescape_unicode(const char *s, size_t n, size_t *used)
{
    long high = read_hex(s + 1, n - 1), low = -1;
    *used = high < 0 ? 1 : 5;
    if (high < 0xd800 || high > 0xdfff) return high < 0 ? 'u' : (uint32_t)high;
    if (high < 0xdc00 && n >= 11 && s[5] == '\\' && s[6] == 'u') low = read_hex(s + 7, n - 7);
    if (low < 0xdc00 || low > 0xdfff) return 0xfffd;
    *used = 11;
    return 0x10000 + (((uint32_t)high - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
}

static uint32_t plain_character(const char *s, size_t n, size_t *used)
{
    uint32_t cp;
    int length = utf8_decode(s, n, &cp);
    *used = length > 0 ? (size_t)length : utf8_bad_length(s, n);
    return length > 0 ? cp : 0xfffd;
}

/* Decodes the next character of a string and writes its length in bytes to *used. */
static uint32_t boxes_next_character(const char *s, size_t n, size_t *used)
{
    uint32_t cp;
    if (s[0] != '\\' || n < 2) return plain_character(s, n, used);
    if (s[1] == 'u')
        cp = unescape_unicode(s + 1, n - 1, used);
    else
        cp = plain_character(s + 1, n - 1, used);
    *used += 1;
    /* Escapes of control characters become blanks; other escaped characters stand for themselves.
     */
    return cp < 0x80 && s[1] != 'u' && cp && strchr("nrtbf", (int)cp) ? ' ' : cp;
}

/* Copies a string as a label: on one line, cut to EY_MAX_LABEL_BYTES, but never inside a character.
 */
static char *copy_label(struct arena *memory, struct boxes_span span)
{
    char label[EY_MAX_LABEL_BYTES + 4];
    size_t n = 0, used;
    for (size_t i = 0; i < span.n; i += used) {
        uint32_t cp = boxes_next_character(span.text + i, span.n - i, &used);
        if (cp < 0x20 || (cp >= 0x7f && cp < 0xa0)) cp = ' ';
        if (cp == ' ' && !n) continue;
        size_t length = (size_t)utf8_encode(cp, label + n);
        if (n + length > EY_MAX_LABEL_BYTES) break;
        n += length;
    }
    while (n && label[n - 1] == ' ')
        n--;
    return arena_copy_text(memory, label, n);
}

/* ---- coordinates ---- */

/* Reads a decimal number. Sets *spelled_real if it has a point or an exponent. */
static bool boxes_read_number(const char **at, const char *end, double *out, bool *spelled_real)
{
    char digits[40], *rest;
    size_t n = 0;
    const char *p = *at;
    while (p < end && n < sizeof(digits) - 1 && *p && strchr("+-.0123456789eE", *p)) {
        *spelled_real = *spelled_real || strchr(".eE", *p);
        digits[n++] = *p++;
    }
    digits[n] = 0;
    *out = strtod(digits, &rest);
    if (!n || *rest || !isfinite(*out)) return false;
    *at = p;
    return true;
}

static double clamp_coordinate(double v)
{
    return v < 0 ? 0 : v > SCALE ? SCALE : v;
}

/* Converts fractions (0 to 1) to thousandths, clips the box to the image, and orders its corners.
 */
static void normalize_box(double v[4], bool any_real)
{
    bool shares = any_real && v[0] <= 1 && v[1] <= 1 && v[2] <= 1 && v[3] <= 1;
    for (int i = 0; i < 4; i++)
        v[i] = clamp_coordinate(shares ? v[i] * SCALE : v[i]);
    for (int i = 0; i < 2; i++) {
        double first = v[i];
        if (first > v[i + 2]) {
            v[i] = v[i + 2];
            v[i + 2] = first;
        }
    }
}

/* Reads exactly four numbers in brackets at r->at. Otherwise leaves r->at and *f unchanged. */
static bool read_box(struct boxes_reader *r, struct boxes_frame *f)
{
    const char *at = r->at;
    double box[4];
    bool any_real = false;
    if (at == r->end || *at != '[') return false;
    for (int i = 0; i < 4; i++) {
        at = boxes_skip_space(at + 1, r->end); /* past the bracket or comma */
        if (!boxes_read_number(&at, r->end, &box[i], &any_real)) return false;
        at = boxes_skip_space(at, r->end);
        if (at == r->end || *at != (i < 3 ? ',' : ']')) return false;
    }
    normalize_box(box, any_real);
    memcpy(f->box, box, sizeof(box));
    f->has_box = true;
    r->at = at + 1;
    return true;
}

/* ---- objects ---- */

static struct boxes_frame *top_frame(struct boxes_reader *r)
{
    return &r->frame[r->depth - 1];
}

/* Opens a list or an object. Ends the reading if they are nested too deeply. */
static void push_frame(struct boxes_reader *r, bool list)
{
    r->at++;
    if (r->depth == EY_MAX_JSON_DEPTH)
        r->at = r->end;
    else
        r->frame[r->depth++] = (struct boxes_frame){.list = list};
}

/* Called after a complete value. In an object, a key comes next. */
static void value_done(struct boxes_reader *r)
{
    if (r->depth) top_frame(r)->has_value = false;
}

static bool add_box(struct boxes_reader *r, const struct boxes_frame *f, ey_err *e)
{
    ey_box_list *list = r->list;
    if (list->n == EY_MAX_BOXES) return list->truncated = true;
    if (!list->boxes) list->boxes = arena_array(r->memory, EY_MAX_BOXES, sizeof(*list->boxes));
    char *label = copy_label(r->memory, f->label);
    if (!list->boxes || !label)
        return ey_fail_memory(e, "boxes", EY_MAX_BOXES * sizeof(*list->boxes));
    list->boxes[list->n++] = (ey_box){f->box[0], f->box[1], f->box[2], f->box[3], label};
    return true;
}

static bool close_object(struct boxes_reader *r, ey_err *e)
{
    struct boxes_frame f = *top_frame(r);
    r->at++;
    r->depth--;
    value_done(r);
    return !f.has_box || add_box(r, &f, e);
}

static enum boxes_key boxes_key_of(struct boxes_span name)
{
    static const struct {
        const char *name;
        enum boxes_key key;
    } keys[] = {
        {"bbox_2d", KEY_BOX}, {"bbox", KEY_BOX}, {"label", KEY_LABEL}, {"text_content", KEY_LABEL}};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (name.n == strlen(keys[i].name) && memcmp(name.text, keys[i].name, name.n) == 0)
            return keys[i].key;
    return KEY_OTHER;
}

static struct boxes_span boxes_read_word(struct boxes_reader *r)
{
    const char *start = r->at;
    while (r->at < r->end && boxes_is_word(*r->at))
        r->at++;
    return (struct boxes_span){start, (size_t)(r->at - start)};
}

/* Reads a key or the end of the object, or skips a character that belongs to neither. */
static bool read_key(struct boxes_reader *r, ey_err *e)
{
    char c = *r->at;
    if (c == '}') return close_object(r, e);
    if (c == '{') { /* the current object was never closed and is dropped */
        r->depth--;
        push_frame(r, false);
    } else if (c == '"' || c == '\'' || boxes_is_word(c)) {
        struct boxes_span name = boxes_is_word(c) ? boxes_read_word(r) : read_string(r, ":");
        r->at = boxes_skip_space(r->at, r->end);
        if (r->at == r->end || *r->at != ':') return true;
        r->at++;
        top_frame(r)->key = boxes_key_of(name);
        top_frame(r)->has_value = true;
    } else {
        r->at++;
    }
    return true;
}

static void read_value(struct boxes_reader *r)
{
    struct boxes_frame *f = top_frame(r);
    char c = *r->at;
    if (f->key == KEY_BOX && read_box(r, f))
        value_done(r);
    else if (c == '{' || c == '[')
        push_frame(r, c == '[');
    else if (c == '"' || c == '\'') {
        struct boxes_span text = read_string(r, ",}]");
        if (f->key == KEY_LABEL) f->label = text;
        value_done(r);
    } else { /* skips a number, null or true, up to a comma or the end of the object */
        while (r->at < r->end && !strchr(",}]", *r->at))
            r->at++;
        value_done(r);
    }
}

static void read_item(struct boxes_reader *r)
{
    char c = *r->at;
    if (c == '{' || c == '[')
        push_frame(r, c == '[');
    else if (c == '"' || c == '\'')
        read_string(r, ",}]");
    else if (c == '}') { /* the list was never closed, and ends with the object */
        r->depth--;
        value_done(r);
    } else if (c == ']') {
        r->at++;
        r->depth--;
        value_done(r);
    } else
        r->at++;
}

static bool boxes_read_all(struct boxes_reader *r, ey_err *e)
{
    bool ok = true;
    while (ok && r->at < r->end && !r->list->truncated) {
        if (r->depth) r->at = boxes_skip_space(r->at, r->end);
        if (r->at == r->end) break;
        if (!r->depth && *r->at == '{')
            push_frame(r, false);
        else if (!r->depth)
            r->at++;
        else if (top_frame(r)->list)
            read_item(r);
        else if (top_frame(r)->has_value)
            read_value(r);
        else
            ok = read_key(r, e);
    }
    return ok;
}

/* ---- answers without boxes ---- */

/* Returns the text without surrounding white space, code fence and language. */
static struct boxes_span without_code_fence(const char *text, size_t n)
{
    const char *end = text + n, *at = boxes_skip_space(text, end);
    if (end - at >= 3 && memcmp(at, "```", 3) == 0)
        for (at += 3; at < end && boxes_is_word(*at);)
            at++;
    at = boxes_skip_space(at, end);
    while (end > at && (boxes_is_space(end[-1]) || end[-1] == '`'))
        end--;
    return (struct boxes_span){at, (size_t)(end - at)};
}

/* Returns whether the answer is an empty list or object, or says in words that nothing was found.
 */
static bool says_nothing_found(const char *text, size_t n)
{
    static const char *const words[] = {"none",    "null",        "no",
                                        "nothing", "there is no", "there are no"};
    struct boxes_span said = without_code_fence(text, n);
    char signs[5] = "";
    size_t n_signs = 0;
    for (size_t i = 0; i < said.n && n_signs < sizeof(signs) - 1; i++)
        if (!boxes_is_space(said.text[i])) signs[n_signs++] = said.text[i];
    if (strcmp(signs, "[]") == 0 || strcmp(signs, "{}") == 0) return true;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t length = strlen(words[i]);
        if (said.n >= length && strncasecmp(said.text, words[i], length) == 0 &&
            (said.n == length || !boxes_is_word(said.text[length])))
            return true;
    }
    return false;
}

/* ---- public functions ---- */

bool ey_boxes_read(ey_box_list *list, const char *text, size_t n, ey_err *e)
{
    struct arena *memory = calloc(1, sizeof(*memory));
    struct boxes_reader r = {.at = text, .end = text + n, .list = list, .memory = memory};
    *list = (ey_box_list){.owner = memory};
    if (!memory) return ey_fail_memory(e, "boxes", sizeof(*memory));
    if (!boxes_read_all(&r, e)) return false;
    list->result = list->n                       ? EY_BOXES_FOUND
                   : says_nothing_found(text, n) ? EY_BOXES_NONE
                                                 : EY_BOXES_UNCLEAR;
    return true;
}

void ey_boxes_free(ey_box_list *list)
{
    if (list->owner) arena_free(list->owner);
    free(list->owner);
    *list = (ey_box_list){0};
}

bool ey_boxes_check(const ey_box_list *list, const char *text, size_t n, ey_err *e)
{
    if (list->result != EY_BOXES_UNCLEAR) return true;
    size_t shown = n < SHOWN_BYTES ? n : SHOWN_BYTES;
    while (shown && !utf8_valid(text, shown))
        shown--; /* do not cut a character */
    return ey_fail(e, EY_BAD_MODEL,
                   "the model's answer has no boxes that can be understood: \"%.*s\"%s", (int)shown,
                   text, shown < n ? " …" : "");
}

static int to_pixels(double thousandths, int side)
{
    return (int)lround(thousandths / SCALE * side);
}

void ey_box_to_pixels(const ey_box *box, int width, int height, int pixels[4])
{
    pixels[0] = to_pixels(box->x1, width);
    pixels[1] = to_pixels(box->y1, height);
    pixels[2] = to_pixels(box->x2, width);
    pixels[3] = to_pixels(box->y2, height);
}
