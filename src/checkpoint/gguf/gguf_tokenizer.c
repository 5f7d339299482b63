/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the equivalent of tokenizer.json from metadata, so that the reader of tokenizer.json
 * validates it, too. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "checkpoint/gguf/gguf_internal.h"

/* tokenizer.ggml.token_type */
enum token_kind {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER_DEFINED = 4,
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6
};

struct gguf_token {
    const char *text; /* [n], in the mapped file */
    size_t n;
    enum token_kind kind;
    double score;
};

struct gguf_vocab {
    const struct gguf_model *m;
    struct gguf_token *tokens; /* [n] */
    size_t n;
    int64_t unknown;                            /* -1 if there is none */
    json_object *root, *vocab, *merges, *added; /* the others are owned by root */
    ey_err *e;
};

#define TOKENS_KEY "tokenizer.ggml.tokens"
#define MERGES_KEY "tokenizer.ggml.merges"

static const char *vocab_path(const struct gguf_vocab *v)
{
    return gguf_path(gguf_main(v->m));
}

static bool fail_vocab_memory(const struct gguf_vocab *v)
{
    return ey_fail_memory(v->e, "the tokenizer", v->n * sizeof(*v->tokens));
}

/* ---- the tables ---- */

static bool read_token_texts(struct gguf_vocab *v)
{
    struct gguf_strings s;
    if (!gguf_strings_of(gguf_main(v->m), TOKENS_KEY, &s, v->e)) return false;
    if (!s.left || s.left > EY_MAX_VOCAB_SIZE)
        return ey_fail(v->e, EY_BAD_MODEL,
                       "%s: %s has %" PRIu64 " tokens; the number must be from 1 to %d",
                       vocab_path(v), TOKENS_KEY, s.left, EY_MAX_VOCAB_SIZE);
    v->tokens = calloc((size_t)s.left, sizeof(*v->tokens));
    if (!v->tokens) return fail_vocab_memory(v);
    for (; gguf_next_string(&s, &v->tokens[v->n].text, &v->tokens[v->n].n); v->n++) {
        struct gguf_token *t = &v->tokens[v->n];
        t->kind = TOKEN_NORMAL;
        if (!t->n || t->n > EY_MAX_TOKEN_BYTES || memchr(t->text, 0, t->n) ||
            !utf8_valid(t->text, t->n))
            return ey_fail(v->e, EY_BAD_MODEL,
                           "%s: token %zu of %s is empty, longer than %d bytes, or not UTF-8 text",
                           vocab_path(v), v->n, TOKENS_KEY, EY_MAX_TOKEN_BYTES);
    }
    return true;
}

/* Finds an array of numbers with an element for each token. Sets *out to NULL if it is absent.
 * Fails if its length or type is wrong. */
static bool find_token_numbers(const struct gguf_vocab *v, const char *key, bool real,
                               const struct gguf_value **out)
{
    const struct gguf_value *a = *out = gguf_find(gguf_main(v->m), key);
    if (!a) return true;
    const bool fits = a->type == GGUF_ARRAY && a->n == v->n &&
                      (real ? gguf_is_real(a->element) : gguf_is_integer(a->element));
    return fits ||
           ey_fail(v->e, EY_BAD_MODEL, "%s: %s must be a list of %zu numbers, one per token",
                   vocab_path(v), key, v->n);
}

static bool read_token_kinds(struct gguf_vocab *v)
{
    const struct gguf_value *kinds, *scores;
    if (!find_token_numbers(v, "tokenizer.ggml.token_type", false, &kinds) ||
        !find_token_numbers(v, "tokenizer.ggml.scores", true, &scores))
        return false;
    for (size_t i = 0; i < v->n; i++) {
        const int64_t kind = kinds ? gguf_array_int(kinds, i) : TOKEN_NORMAL;
        if (kind < 0 || kind > TOKEN_BYTE)
            return ey_fail(v->e, EY_BAD_MODEL, "%s: token %zu has the unknown type %" PRId64,
                           vocab_path(v), i, kind);
        v->tokens[i].kind = kind ? (enum token_kind)kind : TOKEN_NORMAL;
        v->tokens[i].score = scores ? gguf_array_real(scores, i) : 0;
        if (!isfinite(v->tokens[i].score)) /* NaN cannot be sorted */
            return ey_fail(v->e, EY_BAD_MODEL, "%s: the score of token %zu is not a finite number",
                           vocab_path(v), i);
    }
    v->unknown = -1;
    return gguf_optional_int(gguf_main(v->m), "tokenizer.ggml.unknown_token_id", 0,
                             (int64_t)v->n - 1, &v->unknown, v->e);
}

/* ---- JSON ---- */

/* Adds `value` and takes ownership of it. Fails if it is NULL. */
static bool put_with(const struct gguf_vocab *v, json_object *object, const char *key,
                     json_object *value, unsigned flags)
{
    if (value && json_object_object_add_ex(object, key, value, flags) == 0) return true;
    json_object_put(value);
    return fail_vocab_memory(v);
}

static bool put_in(const struct gguf_vocab *v, json_object *object, const char *key,
                   json_object *value)
{
    return put_with(v, object, key, value, 0);
}

/* Like put_in(), without the search for the key, which the object must not have. */
static bool put_new(const struct gguf_vocab *v, json_object *object, const char *key,
                    json_object *value)
{
    return put_with(v, object, key, value, JSON_C_OBJECT_ADD_KEY_IS_NEW);
}

static bool append_to(const struct gguf_vocab *v, json_object *list, json_object *value)
{
    if (value && json_object_array_add(list, value) == 0) return true;
    json_object_put(value);
    return fail_vocab_memory(v);
}

static json_object *token_text(const struct gguf_token *t)
{
    return json_object_new_string_len(t->text, (int)t->n);
}

/* Returns whether an added token strips whitespace to its right, which GGUF files do not record.
 * All added tokens of Phi-3 strip it, except for these three. */
static bool strips_right(const struct gguf_vocab *v, size_t id)
{
    static const char *const others[] = {"<unk>", "<s>", "<|endoftext|>"};
    const struct gguf_token *t = &v->tokens[id];
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (t->n == strlen(others[i]) && memcmp(t->text, others[i], t->n) == 0) return false;
    return strcmp(v->m->arch->model_type, "phi3") == 0;
}

/* Appends {"id", "content", "special", …} to the added tokens. */
static bool add_added_token(const struct gguf_vocab *v, size_t id, bool special)
{
    json_object *entry = json_object_new_object();
    return append_to(v, v->added, entry) &&
           put_in(v, entry, "id", json_object_new_int64((int64_t)id)) &&
           put_in(v, entry, "content", token_text(&v->tokens[id])) &&
           put_in(v, entry, "special", json_object_new_boolean(special)) &&
           put_in(v, entry, "single_word", json_object_new_boolean(false)) &&
           put_in(v, entry, "lstrip", json_object_new_boolean(false)) &&
           put_in(v, entry, "normalized", json_object_new_boolean(false)) &&
           put_in(v, entry, "rstrip", json_object_new_boolean(strips_right(v, id)));
}

static bool add_vocab_token(const struct gguf_vocab *v, size_t id)
{
    char key[EY_MAX_TOKEN_BYTES + 1];
    json_object *other;
    memcpy(key, v->tokens[id].text, v->tokens[id].n);
    key[v->tokens[id].n] = 0;
    if (json_object_object_get_ex(v->vocab, key, &other))
        return ey_fail(v->e, EY_BAD_MODEL, "%s: tokens %s and %zu of %s are both \"%.100s\"",
                       vocab_path(v), json_object_to_json_string(other), id, TOKENS_KEY, key);
    return put_new(v, v->vocab, key, json_object_new_int64((int64_t)id));
}

/* Adds all tokens but the unused ones, which only pad the vocabulary. */
static bool add_tokens(const struct gguf_vocab *v)
{
    for (size_t i = 0; i < v->n; i++) {
        const enum token_kind kind = v->tokens[i].kind;
        const bool control = kind == TOKEN_CONTROL || kind == TOKEN_UNKNOWN ||
                             (int64_t)i == v->unknown;
        if (kind == TOKEN_UNUSED) continue;
        if (!(control || kind == TOKEN_USER_DEFINED ? add_added_token(v, i, control)
                                                    : add_vocab_token(v, i)))
            return false;
    }
    return true;
}

static bool add_pipeline(struct gguf_vocab *v, const char *pipeline)
{
    json_object *model = json_object_new_object();
    v->vocab = json_object_new_object();
    v->merges = json_object_new_array();
    v->added = json_object_new_array();
    v->root = json_tokener_parse(pipeline);
    if (!v->root) {
        json_object_put(model);
        json_object_put(v->vocab);
        json_object_put(v->merges);
        json_object_put(v->added);
        return fail_vocab_memory(v);
    }
    bool ok = put_in(v, v->root, "model", model);
    ok = put_in(v, v->root, "added_tokens", v->added) && ok;
    if (!ok) {
        json_object_put(v->vocab);
        json_object_put(v->merges);
        return false;
    }
    /* room for all tokens, because the table rehashes all of them when it grows */
    if (v->vocab) lh_table_resize(json_object_get_object(v->vocab), (int)(2 * v->n + 16));
    ok = put_in(v, model, "vocab", v->vocab);
    ok = put_in(v, model, "merges", v->merges) && ok;
    return ok && put_in(v, model, "type", json_object_new_string("BPE"));
}

/* Adds the BOS token's entry to the post-processor: {TEXT: {"id": TEXT, "ids": [ID], "tokens":
 * [TEXT]}}. */
static bool describe_bos(const struct gguf_vocab *v, json_object *post, int64_t id)
{
    char key[EY_MAX_TOKEN_BYTES + 1];
    const struct gguf_token *t = &v->tokens[id];
    memcpy(key, t->text, t->n);
    key[t->n] = 0;
    json_object *entry = json_object_new_object();
    if (!put_in(v, json_member(post, "special_tokens"), key, entry)) return false;
    json_object *ids = json_object_new_array();
    if (!put_in(v, entry, "ids", ids)) return false;
    json_object *texts = json_object_new_array();
    return put_in(v, entry, "tokens", texts) && put_in(v, entry, "id", token_text(t)) &&
           append_to(v, ids, json_object_new_int64(id)) && append_to(v, texts, token_text(t));
}

/* Adds a post-processor that puts a BOS token before each prompt, if metadata says so; `missing` is
 * the default. */
static bool add_bos(const struct gguf_vocab *v, bool missing)
{
    static const char template[] =
        "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"type_id\":0}},"
        "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[{\"Sequence\":{\"id\":\"A\","
        "\"type_id\":0}},{\"Sequence\":{\"id\":\"B\",\"type_id\":0}}],\"special_tokens\":{}}";
    bool add = missing;
    int64_t id = 1;
    if (!gguf_optional_bool(gguf_main(v->m), "tokenizer.ggml.add_bos_token", &add, v->e) ||
        !gguf_optional_int(gguf_main(v->m), "tokenizer.ggml.bos_token_id", 0, (int64_t)v->n - 1,
                           &id, v->e))
        return false;
    if (!add || (size_t)id >= v->n) return true;
    json_object *post = json_tokener_parse(template);
    json_object *single = post ? json_member(post, "single") : NULL;
    json_object *first = single ? json_member(json_object_array_get_idx(single, 0), "SpecialToken")
                                : NULL;
    if (!first) return json_object_put(post), fail_vocab_memory(v);
    return put_in(v, v->root, "post_processor", post) &&
           put_in(v, first, "id", token_text(&v->tokens[id])) && describe_bos(v, post, id);
}

/* ---- byte-level BPE ---- */

#define BYTE_LEVEL                                                               \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":false," \
    "\"use_regex\":"
#define DECODER ",\"decoder\":" BYTE_LEVEL "false}}"
#define SPLIT                                                                                \
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","       \
    "\"behavior\":\"Isolated\",\"invert\":false,\"pattern\":{\"Regex\":\"%s\"}}," BYTE_LEVEL \
    "false}]}" DECODER
#define QWEN2_PATTERN                                                                \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}|" \
    " ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define LLAMA3_PATTERN                                                                    \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}|" \
    " ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define QWEN35_PATTERN                                                                \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{L}\\\\p{M}]+|" \
    "\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|"  \
    "\\\\s+(?!\\\\S)|\\\\s+"

/* The names that llama.cpp gives to pre-tokenizers. Many models share one. */
enum pre_tokenizer { PRE_QWEN2, PRE_QWEN35, PRE_LLAMA3, PRE_DIGITS, PRE_GPT2 };
static const struct {
    const char *pre;
    enum pre_tokenizer kind;
} pre_names[] = {
    {"qwen2", PRE_QWEN2},
    {"deepseek-r1-qwen", PRE_QWEN2},
    {"megrez", PRE_QWEN2},
    {"kormo", PRE_QWEN2},
    {"f2llmv2", PRE_QWEN2},
    {"qwen35", PRE_QWEN35},
    {"llama-bpe", PRE_LLAMA3},
    {"llama3", PRE_LLAMA3},
    {"llama-v3", PRE_LLAMA3},
    {"smollm", PRE_DIGITS},
    {"starcoder", PRE_DIGITS},
    {"refact", PRE_DIGITS},
    {"command-r", PRE_DIGITS},
    {"codeshell", PRE_DIGITS},
    {"exaone", PRE_DIGITS},
    {"minerva", PRE_DIGITS},
    {"gpt-2", PRE_GPT2},
    {"phi-2", PRE_GPT2},
    {"mpt", PRE_GPT2},
    {"olmo", PRE_GPT2},
    {"jais", PRE_GPT2},
    {"trillion", PRE_GPT2},
    {"granite-docling", PRE_GPT2},
};

static const char *const pipelines[] = {
    [PRE_QWEN2] = "{\"normalizer\":{\"type\":\"NFC\"},",
    [PRE_QWEN35] = "{\"normalizer\":{\"type\":\"NFC\"},",
    [PRE_LLAMA3] = "{",
    [PRE_DIGITS] = "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                   "\"Digits\",\"individual_digits\":true}," BYTE_LEVEL "true}]}" DECODER,
    [PRE_GPT2] = "{\"pre_tokenizer\":" BYTE_LEVEL "true}" DECODER,
};
static const char *const patterns[] = {[PRE_QWEN2] = QWEN2_PATTERN,
                                       [PRE_QWEN35] = QWEN35_PATTERN,
                                       [PRE_LLAMA3] = LLAMA3_PATTERN,
                                       [PRE_DIGITS] = NULL,
                                       [PRE_GPT2] = NULL};

/* Finds the file's pre-tokenizer. Qwen files that name none, or "default", get Qwen's. */
static bool find_pre_tokenizer(const struct gguf_vocab *v, enum pre_tokenizer *out)
{
    const char *pre = gguf_text(gguf_main(v->m), "tokenizer.ggml.pre");
    for (size_t i = 0; pre && i < sizeof(pre_names) / sizeof(pre_names[0]); i++)
        if (strcmp(pre, pre_names[i].pre) == 0) return *out = pre_names[i].kind, true;
    if (v->m->arch->nfc && (!pre || strcmp(pre, "default") == 0)) return *out = PRE_QWEN2, true;
    return ey_fail(v->e, EY_BAD_MODEL,
                   "%s: tokenizer.ggml.pre is %.60s, which is not supported (supported: qwen2, "
                   "qwen35, llama-bpe, smollm, gpt-2 and their aliases)",
                   vocab_path(v), pre ? pre : "missing");
}

static json_object *regex_of_step(const json_object *step)
{
    return json_member(json_member(step, "pattern"), "Regex");
}

static json_object *type_if_digits(const json_object *step)
{
    json_object *type = json_member(step, "type");
    return type && strcmp(json_object_get_string(type), "Digits") == 0 ? type : NULL;
}

/* Calls `get` for the steps of a pre-tokenizer in order and returns its first result that is not
 * NULL. Sequences may be nested; JSON's depth limit bounds the recursion. */
static json_object *first_of_steps(const json_object *step,
                                   json_object *(*get)(const json_object *step))
{
    json_object *list = json_member_of_type(step, "pretokenizers", json_type_array),
                *found = get(step);
    for (size_t i = 0; !found && list && i < json_object_array_length(list); i++)
        found = first_of_steps(json_object_array_get_idx(list, i), get);
    return found;
}

/* Returns whether a tokenizer.json has this pre-tokenizer. */
static bool has_pre_tokenizer(const json_object *tokenizer, enum pre_tokenizer kind)
{
    const json_object *pre = json_member(tokenizer, "pre_tokenizer");
    json_object *regex = first_of_steps(pre, regex_of_step);
    const char *pattern = regex ? json_object_get_string(regex) : NULL;
    const bool has_digits = first_of_steps(pre, type_if_digits) != NULL;
    if (!patterns[kind]) return pre && !pattern && has_digits == (kind == PRE_DIGITS);
    struct buf text = buf_with_max(4096);
    buf_printf(&text, "[\"%s\"]", patterns[kind]);
    json_object *own = text.data ? json_tokener_parse(text.data) : NULL;
    buf_free(&text);
    const bool same = own && pattern &&
                      strcmp(json_object_get_string(json_object_array_get_idx(own, 0)), pattern) ==
                          0;
    json_object_put(own);
    return same;
}

const char *gguf_pre_of(const json_object *tokenizer)
{
    for (size_t i = 0; i < sizeof(pre_names) / sizeof(pre_names[0]); i++)
        if (has_pre_tokenizer(tokenizer, pre_names[i].kind)) return pre_names[i].pre;
    return NULL;
}

static bool add_pre_tokenizer(struct gguf_vocab *v, enum pre_tokenizer kind)
{
    struct buf text = buf_with_max(8192);
    buf_add_text(&text, pipelines[kind]);
    if (patterns[kind]) buf_printf(&text, SPLIT, patterns[kind]);
    const bool ok = text.data ? add_pipeline(v, text.data) : fail_vocab_memory(v);
    buf_free(&text);
    return ok;
}

/* Limits the number of merges before they become JSON, which takes many times their memory. */
static bool check_merge_count(const struct gguf_vocab *v, uint64_t n)
{
    return n <= EY_MAX_MERGES || ey_fail(v->e, EY_BAD_MODEL, "%s: it has more than %d merges",
                                         vocab_path(v), EY_MAX_MERGES);
}

/* Copies the merges, which are "LEFT RIGHT", as in tokenizer.json. */
static bool add_merges(const struct gguf_vocab *v)
{
    struct gguf_strings s;
    const char *text;
    size_t n;
    if (!gguf_strings_of(gguf_main(v->m), MERGES_KEY, &s, v->e) || !check_merge_count(v, s.left))
        return false;
    while (gguf_next_string(&s, &text, &n)) {
        if (n > 2 * EY_MAX_TOKEN_BYTES + 1 || !utf8_valid(text, n) || memchr(text, 0, n))
            return ey_fail(v->e, EY_BAD_MODEL, "%s: %s has an entry that is not text",
                           vocab_path(v), MERGES_KEY);
        if (!append_to(v, v->merges, json_object_new_string_len(text, (int)n))) return false;
    }
    return true;
}

static bool make_byte_level(struct gguf_vocab *v)
{
    enum pre_tokenizer kind = PRE_GPT2;
    if (!find_pre_tokenizer(v, &kind) || !add_pre_tokenizer(v, kind)) return false;
    const bool whole_words = kind == PRE_LLAMA3;
    return put_in(v, json_member(v->root, "model"), "ignore_merges",
                  json_object_new_boolean(whole_words)) &&
           add_tokens(v) && add_merges(v) && add_bos(v, whole_words);
}

/* ---- SentencePiece ---- */

static const char sentencepiece[] =
    "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
    "\"\xe2\x96\x81\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":"
    "\"\xe2\x96\x81\"}]},\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\","
    "\"pattern\":{\"String\":\"\xe2\x96\x81\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},"
    "{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}}";

/* Returns whether a merge may produce or consume a token. Added tokens take no part in merges, and
 * byte tokens, which have the highest scores, would win every merge. */
static bool is_piece(const struct gguf_vocab *v, size_t id)
{
    return v->tokens[id].kind == TOKEN_NORMAL && (int64_t)id != v->unknown;
}

/* A sort key: tokens are in descending order of scores, equal scores in the order of ids. */
struct by_score {
    double score;
    size_t id;
};

static int compare_scores(const void *a, const void *b)
{
    const struct by_score *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool is_piece_text(const struct gguf_vocab *v, const char *text, size_t n)
{
    char key[EY_MAX_TOKEN_BYTES + 1];
    json_object *id;
    memcpy(key, text, n);
    key[n] = 0;
    return json_object_object_get_ex(v->vocab, key, &id) &&
           is_piece(v, (size_t)json_object_get_int64(id));
}

/* Adds a merge for each way to split a token into two others. SentencePiece has no list of merges:
 * it merges the pair that forms the token with the highest score. */
static bool add_merges_of(const struct gguf_vocab *v, size_t id)
{
    const struct gguf_token *t = &v->tokens[id];
    char merge[2 * EY_MAX_TOKEN_BYTES + 2];
    for (size_t at = 1; at < t->n; at++) {
        if ((t->text[at] & 0xc0) == 0x80) continue; /* inside a UTF-8 character */
        if (!is_piece_text(v, t->text, at) || !is_piece_text(v, t->text + at, t->n - at)) continue;
        const int n = snprintf(merge, sizeof(merge), "%.*s %.*s", (int)at, t->text,
                               (int)(t->n - at), t->text + at);
        if (!check_merge_count(v, json_object_array_length(v->merges) + 1) ||
            !append_to(v, v->merges, json_object_new_string_len(merge, n)))
            return false;
    }
    return true;
}

static bool add_merges_by_score(const struct gguf_vocab *v)
{
    struct by_score *order = malloc(v->n * sizeof(*order));
    if (!order) return fail_vocab_memory(v);
    size_t n = 0;
    for (size_t i = 0; i < v->n; i++)
        if (is_piece(v, i)) order[n++] = (struct by_score){v->tokens[i].score, i};
    qsort(order, n, sizeof(*order), compare_scores);
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++)
        ok = add_merges_of(v, order[i].id);
    free(order);
    return ok;
}

static bool make_sentencepiece(struct gguf_vocab *v)
{
    bool prefix = true;
    if (!gguf_optional_bool(gguf_main(v->m), "tokenizer.ggml.add_space_prefix", &prefix, v->e))
        return false;
    if (!prefix)
        return ey_fail(v->e, EY_BAD_MODEL,
                       "%s: tokenizer.ggml.add_space_prefix is false, which is not supported",
                       vocab_path(v));
    if (v->unknown < 0) v->unknown = 0;
    return add_pipeline(v, sentencepiece) &&
           put_in(v, json_member(v->root, "model"), "byte_fallback",
                  json_object_new_boolean(true)) &&
           add_tokens(v) && add_merges_by_score(v) && add_bos(v, true);
}

/* ---- tokenizer.json ---- */

json_object *gguf_model_tokenizer(const struct gguf_model *m, ey_err *e)
{
    struct gguf_vocab v = {.m = m, .e = e};
    const struct gguf *f = gguf_main(m);
    bool ok = read_token_texts(&v) && read_token_kinds(&v);
    if (ok && gguf_text_is(f, "tokenizer.ggml.model", "gpt2"))
        ok = make_byte_level(&v);
    else if (ok && gguf_text_is(f, "tokenizer.ggml.model", "llama"))
        ok = make_sentencepiece(&v);
    else if (ok)
        ok = ey_fail(
            e, EY_BAD_MODEL,
            "%s: tokenizer.ggml.model is missing or not supported (supported: gpt2, llama)",
            gguf_path(f));
    free(v.tokens);
    if (ok) return v.root;
    json_object_put(v.root);
    return NULL;
}
