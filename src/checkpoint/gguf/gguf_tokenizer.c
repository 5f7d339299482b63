/* SPDX-License-Identifier: Apache-2.0 */
/* Converts the metadata's tokenizer to the form of tokenizer.json, so that one reader checks both.
 */
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
        return ey_fail(v->e, EY_BAD_MODEL, "%s: %s has %" PRIu64 " tokens; eyelet reads 1 to %d",
                       vocab_path(v), TOKENS_KEY, s.left, EY_MAX_VOCAB_SIZE);
    v->tokens = calloc((size_t)s.left, sizeof(*v->tokens));
    if (!v->tokens) return fail_vocab_memory(v);
    for (; gguf_next_string(&s, &v->tokens[v->n].text, &v->tokens[v->n].n); v->n++) {
        struct gguf_token *t = &v->tokens[v->n];
        t->kind = TOKEN_NORMAL;
        if (!t->n || t->n > EY_MAX_TOKEN_BYTES || memchr(t->text, 0, t->n) ||
            !utf8_valid(t->text, t->n))
            return ey_fail(v->e, EY_BAD_MODEL,
                           "%s: token %zu of %s is empty, longer than %d bytes, or not text",
                           vocab_path(v), v->n, TOKENS_KEY, EY_MAX_TOKEN_BYTES);
    }
    return true;
}

/* Finds an array parallel to the tokens. Fails if its length or type is wrong; an absent one is
 * NULL without an error. */
static bool find_array_beside(const struct gguf_vocab *v, const char *key, bool real,
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
    if (!find_array_beside(v, "tokenizer.ggml.token_type", false, &kinds) ||
        !find_array_beside(v, "tokenizer.ggml.scores", true, &scores))
        return false;
    for (size_t i = 0; i < v->n; i++) {
        const int64_t kind = kinds ? gguf_array_int(kinds, i) : TOKEN_NORMAL;
        if (kind < 0 || kind > TOKEN_BYTE)
            return ey_fail(v->e, EY_BAD_MODEL, "%s: token %zu has the unknown type %" PRId64,
                           vocab_path(v), i, kind);
        v->tokens[i].kind = kind ? (enum token_kind)kind : TOKEN_NORMAL;
        v->tokens[i].score = scores ? gguf_array_real(scores, i) : 0;
        if (!isfinite(v->tokens[i].score)) /* tokens are sorted by it */
            return ey_fail(v->e, EY_BAD_MODEL, "%s: the score of token %zu is not a finite number",
                           vocab_path(v), i);
    }
    v->unknown = -1;
    return gguf_optional_int(gguf_main(v->m), "tokenizer.ggml.unknown_token_id", 0,
                             (int64_t)v->n - 1, &v->unknown, v->e);
}

/* ---- JSON ---- */

/* Adds `value` and takes ownership; NULL is an error. */
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

/* Like put_in() for a key that the object lacks, which is not looked up again. */
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

/* Whether an added token strips whitespace to its right. Phi-3's do, except for these; GGUF files
 * do not record it. */
static bool strips_right(const struct gguf_vocab *v, size_t id)
{
    static const char *const others[] = {"<unk>", "<s>", "<|endoftext|>"};
    const struct gguf_token *t = &v->tokens[id];
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (t->n == strlen(others[i]) && memcmp(t->text, others[i], t->n) == 0) return false;
    return strcmp(v->m->arch->model_type, "phi3") == 0;
}

/* {"id", "content", "special", …} */
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

/* Unused tokens (padding of the vocabulary) are not added tokens. */
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
    ok = put_in(v, model, "vocab", v->vocab);
    ok = put_in(v, model, "merges", v->merges) && ok;
    return ok && put_in(v, model, "type", json_object_new_string("BPE"));
}

/* The post-processor's entry of the token: {TEXT: {"id": TEXT, "ids": [ID], "tokens": [TEXT]}}. */
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

/* Adds the post-processor that puts a BOS token before each prompt. */
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

/* Pre-tokenizers by their llama.cpp names. */
enum cut { CUT_QWEN2, CUT_QWEN35, CUT_LLAMA3, CUT_DIGITS, CUT_GPT2 };
static const struct {
    const char *pre;
    enum cut cut;
} cuts[] = {
    {"qwen2", CUT_QWEN2},
    {"deepseek-r1-qwen", CUT_QWEN2},
    {"megrez", CUT_QWEN2},
    {"kormo", CUT_QWEN2},
    {"f2llmv2", CUT_QWEN2},
    {"qwen35", CUT_QWEN35},
    {"llama-bpe", CUT_LLAMA3},
    {"llama3", CUT_LLAMA3},
    {"llama-v3", CUT_LLAMA3},
    {"smollm", CUT_DIGITS},
    {"starcoder", CUT_DIGITS},
    {"refact", CUT_DIGITS},
    {"command-r", CUT_DIGITS},
    {"codeshell", CUT_DIGITS},
    {"exaone", CUT_DIGITS},
    {"minerva", CUT_DIGITS},
    {"gpt-2", CUT_GPT2},
    {"phi-2", CUT_GPT2},
    {"mpt", CUT_GPT2},
    {"olmo", CUT_GPT2},
    {"jais", CUT_GPT2},
    {"trillion", CUT_GPT2},
    {"granite-docling", CUT_GPT2},
};

static const char *const pipelines[] = {
    [CUT_QWEN2] = "{\"normalizer\":{\"type\":\"NFC\"},",
    [CUT_QWEN35] = "{\"normalizer\":{\"type\":\"NFC\"},",
    [CUT_LLAMA3] = "{",
    [CUT_DIGITS] = "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                   "\"Digits\",\"individual_digits\":true}," BYTE_LEVEL "true}]}" DECODER,
    [CUT_GPT2] = "{\"pre_tokenizer\":" BYTE_LEVEL "true}" DECODER,
};
static const char *const patterns[] = {[CUT_QWEN2] = QWEN2_PATTERN,
                                       [CUT_QWEN35] = QWEN35_PATTERN,
                                       [CUT_LLAMA3] = LLAMA3_PATTERN,
                                       [CUT_DIGITS] = NULL,
                                       [CUT_GPT2] = NULL};

/* Finds the pre-tokenizer. Qwen files without one, or with "default", use Qwen's. */
static bool find_cut(const struct gguf_vocab *v, enum cut *out)
{
    const char *pre = gguf_text(gguf_main(v->m), "tokenizer.ggml.pre");
    for (size_t i = 0; pre && i < sizeof(cuts) / sizeof(cuts[0]); i++)
        if (strcmp(pre, cuts[i].pre) == 0) return *out = cuts[i].cut, true;
    if (v->m->arch->nfc && (!pre || strcmp(pre, "default") == 0)) return *out = CUT_QWEN2, true;
    return ey_fail(v->e, EY_BAD_MODEL,
                   "%s: tokenizer.ggml.pre is %.60s, which is not supported (supported: qwen2, "
                   "qwen35, llama-bpe, smollm, gpt-2 and their like)",
                   vocab_path(v), pre ? pre : "missing");
}

/* The pattern of a pre-tokenizer's Split step, or NULL if it has none. */
static const char *split_pattern(const json_object *pre_tokenizer)
{
    json_object *list = json_member_of_type(pre_tokenizer, "pretokenizers", json_type_array);
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        json_object *regex = json_member(json_member(json_object_array_get_idx(list, i), "pattern"),
                                         "Regex");
        if (regex) return json_object_get_string(regex);
    }
    return NULL;
}

static bool has_digits(const json_object *pre_tokenizer)
{
    json_object *list = json_member_of_type(pre_tokenizer, "pretokenizers", json_type_array);
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        json_object *type = json_member(json_object_array_get_idx(list, i), "type");
        if (type && strcmp(json_object_get_string(type), "Digits") == 0) return true;
    }
    return false;
}

/* Whether a tokenizer.json has this pre-tokenizer. */
static bool cuts_so(const json_object *tokenizer, enum cut cut)
{
    const json_object *pre = json_member(tokenizer, "pre_tokenizer");
    const char *pattern = split_pattern(pre);
    if (!patterns[cut]) return pre && !pattern && has_digits(pre) == (cut == CUT_DIGITS);
    struct buf text = buf_with_max(4096);
    buf_printf(&text, "[\"%s\"]", patterns[cut]);
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
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++)
        if (cuts_so(tokenizer, cuts[i].cut)) return cuts[i].pre;
    return NULL;
}

static bool add_cut(struct gguf_vocab *v, enum cut cut)
{
    struct buf text = buf_with_max(8192);
    buf_add_text(&text, pipelines[cut]);
    if (patterns[cut]) buf_printf(&text, SPLIT, patterns[cut]);
    const bool ok = text.data ? add_pipeline(v, text.data) : fail_vocab_memory(v);
    buf_free(&text);
    return ok;
}

/* Checked before merges become JSON, which takes many times their bytes. */
static bool check_merge_count(const struct gguf_vocab *v, uint64_t n)
{
    return n <= EY_MAX_MERGES ||
           ey_fail(v->e, EY_BAD_MODEL, "%s: its tokens have more than %d merges", vocab_path(v),
                   EY_MAX_MERGES);
}

/* Copies the merges, "LEFT RIGHT" as in tokenizer.json. */
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
    enum cut cut = CUT_GPT2;
    if (!find_cut(v, &cut) || !add_cut(v, cut)) return false;
    const bool whole_words = cut == CUT_LLAMA3;
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

/* Whether merging may make or use a token: not a byte token, whose score is above all others, and
 * not an added one. */
static bool is_piece(const struct gguf_vocab *v, size_t id)
{
    return v->tokens[id].kind == TOKEN_NORMAL && (int64_t)id != v->unknown;
}

/* Sorts tokens by descending score, ties by id. */
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

/* Adds every split of a token into two others as a merge: SentencePiece merges the pair that forms
 * the highest-scoring token. */
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
