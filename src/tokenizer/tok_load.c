/* SPDX-License-Identifier: Apache-2.0 */
/* Loads tokenizer.json (spec 6.1, 6.2, 6.4).
 *
 * The file is untrusted: each id, length and count is checked before use, and an unknown part is an
 * error that names it. */
#include "tokenizer/tok_load.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/limits.h"

const char *tok_shown(json_object *value)
{
    return json_object_to_json_string_ext(value,
                                          JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

bool tok_is_text(const json_object *value, const char *text)
{
    return json_object_is_type(value, json_type_string) &&
           !strcmp(json_object_get_string((json_object *)value), text);
}

const char *tok_type_of(const json_object *part)
{
    json_object *type = json_member_of_type(part, "type", json_type_string);
    return type ? json_object_get_string(type) : part ? "(no type)" : "null";
}

bool tok_unsupported(const struct loading *l, const char *member, const char *found,
                     const char *supported)
{
    return ey_fail(l->e, EY_BAD_MODEL,
                   "%s: %s is \"%.200s\", which is not supported (supported: %s)", l->what, member,
                   found, supported);
}

/* Fails unless a boolean member is `wanted`, the only supported value. An absent member counts as
 * `missing`. */
static bool flag_is(const struct loading *l, const json_object *part, const char *member,
                    const char *key, bool missing, bool wanted)
{
    bool value = missing;
    if (!json_optional_bool(part, key, &value, l->what, l->e)) return false;
    if (value == wanted) return true;
    return ey_fail(l->e, EY_BAD_MODEL, "%s: %s: %s is %s, which is not supported", l->what, member,
                   key, value ? "true" : "false");
}

/* ---- pipeline ---- */

/* Fails with a message such as "… is Sequence of Prepend, Replace". */
static bool unsupported_sequence(const struct loading *l, const char *member,
                                 const json_object *list, const char *supported)
{
    struct buf found = buf_with_max(4096);
    buf_add_text(&found, "Sequence of");
    for (size_t i = 0; list && i < json_object_array_length(list) && i < 16; i++)
        buf_printf(&found, "%s %.60s", i ? "," : "",
                   tok_type_of(json_object_array_get_idx(list, i)));
    tok_unsupported(l, member, found.data ? found.data : "Sequence", supported);
    buf_free(&found);
    return false;
}

bool tok_unsupported_step(const struct loading *l, const struct tok_step *step,
                          const char *supported)
{
    const json_object *part = json_member(l->root, step->member);
    json_object *list = json_member_of_type(part, step->list, json_type_array);
    return list ? unsupported_sequence(l, step->member, list, supported)
                : tok_unsupported(l, step->member, tok_type_of(part), supported);
}

const struct tok_step tok_normalizer = {"normalizer", "normalizers"};
const struct tok_step tok_pre_tokenizer = {"pre_tokenizer", "pretokenizers"};
const struct tok_step tok_post_processor = {"post_processor", "processors"};
const struct tok_step tok_decoder = {"decoder", "decoders"};

/* {"Sequence": {"id": "A"}} stands for the text itself. */
static bool is_text_of_template(const json_object *piece)
{
    return tok_is_text(json_member(json_member(piece, "Sequence"), "id"), "A");
}

/* Returns whether this post-processor adds no tokens. transformers 5 writes such templates. */
static bool adds_nothing(const json_object *part)
{
    json_object *single = json_member_of_type(part, "single", json_type_array);
    return !strcmp(tok_type_of(part), "TemplateProcessing") && single &&
           json_object_array_length(single) == 1 &&
           is_text_of_template(json_object_array_get_idx(single, 0));
}

/* Recursion is bounded by JSON's depth limit. */
static void add_parts(struct tok_parts *out, const json_object *part, const char *list_name)
{
    json_object *list = json_member_of_type(part, list_name, json_type_array);
    if (list && !strcmp(tok_type_of(part), "Sequence")) {
        for (size_t i = 0; i < json_object_array_length(list); i++)
            add_parts(out, json_object_array_get_idx(list, i), list_name);
    } else if (!adds_nothing(part)) {
        out->at[out->n < MAX_PARTS ? out->n : MAX_PARTS] = part;
        out->n++;
    }
}

struct tok_parts tok_parts_of(const json_object *root, const struct tok_step *step)
{
    struct tok_parts out = {0};
    const json_object *part = json_member(root, step->member);
    if (part) add_parts(&out, part, step->list);
    return out;
}

bool tok_parts_are(const struct tok_parts *parts, const char *const *types, size_t n)
{
    bool same = parts->n == n;
    for (size_t i = 0; same && i < n; i++)
        same = !strcmp(tok_type_of(parts->at[i]), types[i]);
    return same;
}

static bool load_normalizer(struct loading *l)
{
    static const char *const nfc = "NFC";
    struct tok_parts parts = tok_parts_of(l->root, &tok_normalizer);
    l->tok->nfc = parts.n > 0;
    return !parts.n || tok_parts_are(&parts, &nfc, 1) ||
           tok_unsupported_step(l, &tok_normalizer,
                                "null, NFC, or Prepend and Replace of spaces by \xe2\x96\x81");
}

/* Reads a ByteLevel pre-tokenizer; *own_pattern tells whether it splits by GPT-2's pattern. */
static bool read_byte_level(const struct loading *l, const json_object *part, bool *own_pattern)
{
    *own_pattern = true;
    return flag_is(l, part, "pre_tokenizer", "add_prefix_space", false, false) &&
           json_optional_bool(part, "use_regex", own_pattern, l->what, l->e);
}

/* Reads a Split pre-tokenizer; *pattern is borrowed from the JSON. */
static bool read_split(const struct loading *l, const json_object *split, json_object **pattern)
{
    json_object *behavior = json_member(split, "behavior");
    if (!behavior || !tok_is_text(behavior, "Isolated"))
        return tok_unsupported(l, "pre_tokenizer: Split: behavior",
                               json_object_is_type(behavior, json_type_string)
                                   ? json_object_get_string(behavior)
                                   : "absent",
                               "Isolated");
    if (!flag_is(l, split, "pre_tokenizer: Split", "invert", false, false)) return false;
    *pattern = json_member_of_type(json_member(split, "pattern"), "Regex", json_type_string);
    return *pattern || ey_fail(l->e, EY_BAD_MODEL,
                               "%s: pre_tokenizer: the pattern of Split has no Regex", l->what);
}

static bool load_split_and_byte_level(struct loading *l, const struct tok_parts *parts)
{
    json_object *pattern = NULL;
    bool own_pattern = false;
    if (!read_byte_level(l, parts->at[1], &own_pattern) || !read_split(l, parts->at[0], &pattern))
        return false;
    if (own_pattern)
        return ey_fail(l->e, EY_BAD_MODEL,
                       "%s: pre_tokenizer: ByteLevel: use_regex after a Split is not supported",
                       l->what);
    return pretok_compile(&l->tok->pretok, json_object_get_string(pattern),
                          (size_t)json_object_get_string_len(pattern), l->what, l->e);
}

/* Digits + ByteLevel as one pattern: each digit is a piece, GPT-2's pattern splits the rest, and
 * white space before a digit stays whole. */
static bool load_digits_and_byte_level(struct loading *l, const struct tok_parts *parts)
{
    static const char pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+|"
                                  "\\s+(?![^\\s\\p{N}])|\\s+";
    bool own_pattern;
    if (!flag_is(l, parts->at[0], "pre_tokenizer: Digits", "individual_digits", false, true) ||
        !read_byte_level(l, parts->at[1], &own_pattern))
        return false;
    if (!own_pattern)
        return tok_unsupported(l, "pre_tokenizer", "Digits and ByteLevel without a pattern",
                               "use_regex true");
    return pretok_compile(&l->tok->pretok, pattern, strlen(pattern), l->what, l->e);
}

static bool load_pre_tokenizer(struct loading *l)
{
    static const char *const types[] = {"Split", "ByteLevel"}, *const digits[] = {"Digits",
                                                                                  "ByteLevel"};
    struct tok_parts parts = tok_parts_of(l->root, &tok_pre_tokenizer);
    if (tok_parts_are(&parts, types, 2)) return load_split_and_byte_level(l, &parts);
    if (tok_parts_are(&parts, digits, 2)) return load_digits_and_byte_level(l, &parts);
    if (!tok_parts_are(&parts, types + 1, 1))
        return tok_unsupported_step(l, &tok_pre_tokenizer,
                                    "Split or Digits then ByteLevel, or ByteLevel alone");
    bool own_pattern;
    if (!read_byte_level(l, parts.at[0], &own_pattern)) return false;
    if (!own_pattern)
        return tok_unsupported(l, "pre_tokenizer", "ByteLevel without a pattern", "use_regex true");
    return pretok_compile(&l->tok->pretok, PRETOK_GPT2_PATTERN, strlen(PRETOK_GPT2_PATTERN),
                          l->what, l->e);
}

/* Returns whether the template adds one token (BOS) before a prompt and none after it. */
static bool adds_bos_only(const json_object *part)
{
    json_object *single = json_member_of_type(part, "single", json_type_array);
    return !strcmp(tok_type_of(part), "TemplateProcessing") && single &&
           json_object_array_length(single) == 2 &&
           json_member(json_object_array_get_idx(single, 0), "SpecialToken") &&
           is_text_of_template(json_object_array_get_idx(single, 1));
}

/* Accepts only decoders and post-processors that do not change ids, except that a template may add
 * BOS. */
static bool check_post_processor_and_decoder(const struct loading *l)
{
    static const char *const types[] = {"ByteLevel", "Fuse"};
    struct tok_parts post = tok_parts_of(l->root, &tok_post_processor),
                     decoder = tok_parts_of(l->root, &tok_decoder);
    for (size_t i = 0; i < post.n; i++)
        if (i >= MAX_PARTS ||
            (strcmp(tok_type_of(post.at[i]), "ByteLevel") != 0 && !adds_bos_only(post.at[i])))
            return tok_unsupported_step(
                l, &tok_post_processor,
                "null, ByteLevel, or TemplateProcessing that adds only a token before the text");
    return tok_parts_are(&decoder, types, 1) || tok_parts_are(&decoder, types, 2) ||
           tok_unsupported_step(l, &tok_decoder, "ByteLevel");
}

/* Fails on a prefix or suffix, which would change every word. */
static bool no_affix(const struct loading *l, const json_object *model, const char *key)
{
    json_object *value = json_member(model, key);
    return !value || tok_is_text(value, "") ||
           ey_fail(l->e, EY_BAD_MODEL, "%s: model: %s is %.60s, which is not supported", l->what,
                   key, tok_shown(value));
}

static bool check_model(const struct loading *l, const json_object *model)
{
    if (strcmp(tok_type_of(model), "BPE"))
        return tok_unsupported(l, "model", tok_type_of(model), "BPE");
    double dropout = 0;
    return json_optional_number(model, "dropout", 0, 0, &dropout, l->what, l->e) &&
           no_affix(l, model, "continuing_subword_prefix") &&
           no_affix(l, model, "end_of_word_suffix") &&
           flag_is(l, model, "model", "byte_fallback", false,
                   l->tok->pipeline == TOK_SENTENCEPIECE) &&
           json_optional_bool(model, "ignore_merges", &l->tok->ignore_merges, l->what, l->e);
}

/* ---- open ---- */

/* {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", …}}, …]} */
static const char *bos_content(const json_object *root)
{
    struct tok_parts post = tok_parts_of(root, &tok_post_processor);
    for (size_t i = 0; i < post.n && i < MAX_PARTS; i++) {
        json_object *single = json_member_of_type(post.at[i], "single", json_type_array);
        const json_object *first = single && json_object_array_length(single)
                                       ? json_object_array_get_idx(single, 0)
                                       : NULL;
        json_object *content = json_member_of_type(json_member(first, "SpecialToken"), "id",
                                                   json_type_string);
        if (content) return json_object_get_string(content);
    }
    return NULL;
}

static bool load_bos_id(struct loading *l)
{
    const char *content = bos_content(l->root);
    l->tok->bos_id = content ? tokenizer_added_id(l->tok, content) : -1;
    return !content || l->tok->bos_id >= 0 ||
           ey_fail(l->e, EY_BAD_MODEL, "%s: post_processor: \"%.100s\" is not in added_tokens",
                   l->what, content);
}

static bool tokenizer_load(struct loading *l)
{
    const json_object *model = json_member(l->root, "model");
    if (!json_object_is_type(l->root, json_type_object))
        return ey_fail(l->e, EY_BAD_MODEL, "%s: not a JSON object", l->what);
    bool pipeline = tok_is_sentencepiece(l->root) ? tok_load_sentencepiece(l)
                                                  : load_normalizer(l) && load_pre_tokenizer(l) &&
                                                        check_post_processor_and_decoder(l);
    return pipeline && check_model(l, model) && tok_load_tables(l, model) && load_bos_id(l);
}

bool tokenizer_open_json(struct tokenizer **out, const json_object *root, const char *what,
                         ey_err *e)
{
    struct tokenizer *tok = calloc(1, sizeof(*tok));
    if (!tok) return ey_fail_memory(e, "tokenizer", sizeof(*tok));
    struct loading l = {.tok = tok, .root = root, .what = what, .e = e};
    bool ok = tokenizer_load(&l);
    if (ok) {
        *out = tok;
        tok = NULL;
    }
    tokenizer_close(tok);
    return ok;
}

bool tokenizer_open_memory(struct tokenizer **tok, const char *json, size_t n, const char *what,
                           ey_err *e)
{
    json_object *root = json_parse(json, n, what, EY_BAD_MODEL, e);
    bool ok = root && tokenizer_open_json(tok, root, what, e);
    json_object_put(root);
    return ok;
}

bool tokenizer_open(struct tokenizer **tok, const char *directory, ey_err *e)
{
    char path[EY_MAX_PATH];
    if (!path_join(path, directory, "tokenizer.json", e)) return false;
    json_object *root;
    if (!path_is_file(path) && tok_has_vocab_and_merges(directory)) {
        root = tok_json_of_files(directory, e);
        if (!path_join(path, directory, "vocab.json", e)) return json_object_put(root), false;
    } else {
        root = json_parse_file(path, EY_BAD_MODEL, e);
    }
    bool ok = root && tokenizer_open_json(tok, root, path, e);
    json_object_put(root);
    return ok;
}
