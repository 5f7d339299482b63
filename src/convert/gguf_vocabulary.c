/* SPDX-License-Identifier: Apache-2.0 */
/* Converts tokenizer.json to GGUF metadata. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/gguf/gguf_model.h"
#include "convert/gguf_metadata.h"

/* tokenizer.ggml.token_type */
enum { KIND_NORMAL = 1, KIND_CONTROL = 3, KIND_USER_DEFINED = 4, KIND_UNUSED = 5, KIND_BYTE = 6 };

struct vocabulary_token {
    const char *text; /* [n]; NULL if the id has no token */
    size_t n;
    int kind;
    float score;
};

struct vocabulary_export {
    const struct convert_source *source;
    const json_object *tokenizer, *model;
    struct vocabulary_token *token; /* [n] */
    size_t n;
    bool pieces; /* SentencePiece: has scores, and no byte-to-letter mapping */
    ey_err *e;
};

static const char *vocabulary_path(const struct vocabulary_export *v)
{
    return checkpoint_directory(v->source->ckpt);
}

/* ---- tokens ---- */

static bool is_byte_piece(const char *text, size_t n)
{
    return n == 6 && strncmp(text, "<0x", 3) == 0 && text[5] == '>';
}

static bool fail_unknown_id(const struct vocabulary_export *v, int64_t id)
{
    return ey_fail(v->e, EY_BAD_MODEL,
                   "%.400s/tokenizer.json: id %lld is not in the vocabulary of %zu tokens",
                   vocabulary_path(v), (long long)id, v->n);
}

static bool set_token(struct vocabulary_export *v, int64_t id, json_object *text, int kind)
{
    if (id < 0 || (size_t)id >= v->n) return fail_unknown_id(v, id);
    if (!json_object_is_type(text, json_type_string))
        return ey_fail(v->e, EY_BAD_MODEL,
                       "%.400s/tokenizer.json: the text of added token %lld is not a string",
                       vocabulary_path(v), (long long)id);
    v->token[id] = (struct vocabulary_token){json_object_get_string(text),
                                             (size_t)json_object_get_string_len(text), kind, 0};
    return true;
}

static bool read_vocabulary(struct vocabulary_export *v)
{
    json_object *vocab = json_member_of_type(v->model, "vocab", json_type_object);
    if (!vocab)
        return ey_fail(v->e, EY_BAD_MODEL, "%.400s/tokenizer.json: it has no BPE vocabulary",
                       vocabulary_path(v));
    json_object_object_foreach(vocab, text, id)
    {
        const int64_t at = json_object_get_int64(id);
        if (at < 0 || (size_t)at >= v->n) return fail_unknown_id(v, at);
        const size_t n = strlen(text);
        const int kind = v->pieces && is_byte_piece(text, n) ? KIND_BYTE : KIND_NORMAL;
        v->token[at] = (struct vocabulary_token){text, n, kind, 0};
    }
    return true;
}

static bool read_added(struct vocabulary_export *v)
{
    json_object *added = json_member_of_type(v->tokenizer, "added_tokens", json_type_array);
    for (size_t i = 0; added && i < json_object_array_length(added); i++) {
        json_object *entry = json_object_array_get_idx(added, i),
                    *special = json_member(entry, "special"), *id = json_member(entry, "id");
        const bool control = special && json_object_get_boolean(special);
        if (!set_token(v, id ? json_object_get_int64(id) : -1, json_member(entry, "content"),
                       control ? KIND_CONTROL : KIND_USER_DEFINED))
            return false;
    }
    return true;
}

/* ---- merges ---- */

static bool is_string(const json_object *value)
{
    return json_object_is_type(value, json_type_string);
}

/* Sets *out to the parts of a merge ("A B" or ["A", "B"]) with `between` between them. Returns
 * false if it is not a merge. */
static bool merge_text(struct buf *out, json_object *pair, const char *between)
{
    buf_clear(out);
    if (json_object_is_type(pair, json_type_array) && json_object_array_length(pair) == 2) {
        json_object *left = json_object_array_get_idx(pair, 0),
                    *right = json_object_array_get_idx(pair, 1);
        return is_string(left) && is_string(right) &&
               buf_printf(out, "%s%s%s", json_object_get_string(left), between,
                          json_object_get_string(right));
    }
    const char *text = json_object_get_string(pair),
               *space = text && *text ? strchr(text + 1, ' ') : NULL;
    return space && buf_printf(out, "%.*s%s%s", (int)(space - text), text, between, space + 1);
}

static bool fail_merge(const struct vocabulary_export *v, size_t i)
{
    return ey_fail(v->e, EY_BAD_MODEL, "%.400s/tokenizer.json: merge %zu is not a pair of tokens",
                   vocabulary_path(v), i);
}

static bool put_merges(struct gguf_writer *w, const struct vocabulary_export *v)
{
    json_object *merges = json_member_of_type(v->model, "merges", json_type_array);
    struct buf text = buf_with_max(1 << 16);
    const size_t n = merges ? json_object_array_length(merges) : 0;
    bool ok = true;
    gguf_put_array(w, "tokenizer.ggml.merges", GGUF_STRING, n);
    for (size_t i = 0; ok && i < n; i++) {
        ok = merge_text(&text, json_object_array_get_idx(merges, i), " ") || fail_merge(v, i);
        if (ok) gguf_add_text(w, text.data, text.size);
    }
    buf_free(&text);
    return ok;
}

/* Scores tokens: the earlier a token's first merge, the higher its score. Tokens without a merge
 * come last, in the order of ids. */
static bool score_pieces(struct vocabulary_export *v)
{
    json_object *merges = json_member_of_type(v->model, "merges", json_type_array),
                *vocab = json_member(v->model, "vocab"), *id;
    struct buf text = buf_with_max(1 << 16);
    const size_t n = merges ? json_object_array_length(merges) : 0;
    bool ok = true;
    for (size_t i = 0; i < v->n; i++)
        v->token[i].score = v->token[i].kind == KIND_NORMAL ? -(float)(n + i) : 0;
    for (size_t i = n; ok && i-- > 0;) {
        ok = merge_text(&text, json_object_array_get_idx(merges, i), "") || fail_merge(v, i);
        if (ok && json_object_object_get_ex(vocab, text.data, &id))
            v->token[json_object_get_int64(id)].score = -(float)i;
    }
    buf_free(&text);
    return ok;
}

/* ---- special ids ---- */

/* Returns the id of the token that the post-processor puts before a prompt, or -1. */
static int64_t bos_of(const struct vocabulary_export *v)
{
    const json_object *post = json_member(v->tokenizer, "post_processor");
    json_object *steps = json_member_of_type(post, "processors", json_type_array);
    for (size_t i = 0; steps && i < json_object_array_length(steps); i++)
        if (json_member(json_object_array_get_idx(steps, i), "single"))
            post = json_object_array_get_idx(steps, i);
    json_object *single = json_member_of_type(post, "single", json_type_array);
    json_object *first = single && json_object_array_length(single)
                             ? json_member(json_object_array_get_idx(single, 0), "SpecialToken")
                             : NULL;
    json_object *text = json_member(first, "id");
    for (size_t i = 0; text && i < v->n; i++)
        if (v->token[i].text && strcmp(v->token[i].text, json_object_get_string(text)) == 0)
            return (int64_t)i;
    return -1;
}

static int64_t unknown_of(const struct vocabulary_export *v)
{
    json_object *text = json_member_of_type(v->model, "unk_token", json_type_string);
    for (size_t i = 0; text && i < v->n; i++)
        if (v->token[i].text && strcmp(v->token[i].text, json_object_get_string(text)) == 0)
            return (int64_t)i;
    return -1;
}

/* Returns the first EOS id of generation_config.json, else that of config.json, or -1. */
static int64_t eos_of(const struct vocabulary_export *v)
{
    const json_object *config = checkpoint_config(v->source->ckpt), *generation = NULL,
                      *text = json_member(config, "text_config");
    json_object *ends = NULL;
    if (checkpoint_json(v->source->ckpt, "generation_config.json", &generation, NULL))
        ends = json_member(generation, "eos_token_id");
    if (!ends) ends = json_member(text ? text : config, "eos_token_id");
    json_object *first = json_object_is_type(ends, json_type_array)
                             ? json_object_array_get_idx(ends, 0)
                             : ends;
    return first ? json_object_get_int64(first) : -1;
}

static void put_id(struct gguf_writer *w, const char *key, int64_t id)
{
    if (id >= 0) gguf_put_u32(w, key, (uint32_t)id);
}

/* ---- export ---- */

static void put_tokens(struct gguf_writer *w, const struct vocabulary_export *v)
{
    gguf_put_array(w, "tokenizer.ggml.tokens", GGUF_STRING, v->n);
    for (size_t i = 0; i < v->n; i++) {
        char padding[32];
        snprintf(padding, sizeof(padding), "[PAD%zu]", i);
        if (v->token[i].text)
            gguf_add_text(w, v->token[i].text, v->token[i].n);
        else
            gguf_add_text(w, padding, strlen(padding));
    }
    gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_I32, v->n);
    for (size_t i = 0; i < v->n; i++)
        gguf_add_u32(w, (uint32_t)(v->token[i].text ? v->token[i].kind : KIND_UNUSED));
    if (!v->pieces) return;
    gguf_put_array(w, "tokenizer.ggml.scores", GGUF_F32, v->n);
    for (size_t i = 0; i < v->n; i++)
        gguf_add_f32(w, v->token[i].score);
}

static bool put_kind(struct gguf_writer *w, const struct vocabulary_export *v)
{
    const char *pre = v->pieces ? "default" : gguf_pre_of(v->tokenizer),
               *model = v->pieces ? "llama" : "gpt2";
    if (!pre)
        return ey_fail(v->e, EY_BAD_REQUEST,
                       "%.400s/tokenizer.json: GGUF has no name for its pre-tokenizer"
                       "; the model cannot be converted",
                       vocabulary_path(v));
    gguf_put_text(w, "tokenizer.ggml.model", model, strlen(model));
    gguf_put_text(w, "tokenizer.ggml.pre", pre, strlen(pre));
    return true;
}

bool gguf_put_tokenizer(struct gguf_writer *w, const struct convert_source *source,
                        const json_object *tokenizer, ey_err *e)
{
    struct vocabulary_export v = {.source = source,
                                  .tokenizer = tokenizer,
                                  .model = json_member(tokenizer, "model"),
                                  .n = (size_t)source->text->vocab_size,
                                  .e = e};
    json_object *bytes = json_member(v.model, "byte_fallback");
    v.pieces = bytes && json_object_get_boolean(bytes);
    v.token = calloc(v.n, sizeof(*v.token));
    if (!v.token) return ey_fail_memory(e, "the tokenizer", v.n * sizeof(*v.token));
    bool ok = put_kind(w, &v) && read_vocabulary(&v) && read_added(&v) &&
              (!v.pieces || score_pieces(&v));
    if (ok) put_tokens(w, &v);
    ok = ok && (v.pieces || put_merges(w, &v));
    if (ok) {
        const int64_t bos = bos_of(&v);
        put_id(w, "tokenizer.ggml.bos_token_id", bos);
        put_id(w, "tokenizer.ggml.eos_token_id", eos_of(&v));
        put_id(w, "tokenizer.ggml.unknown_token_id", unknown_of(&v));
        gguf_put_bool(w, "tokenizer.ggml.add_bos_token", bos >= 0);
    }
    free(v.token);
    return ok;
}

/* ---- verification ---- */

static bool fail_lost(const char *path, const char *what, const char *of, ey_err *e)
{
    return ey_fail(e, EY_BAD_REQUEST,
                   "%.300s/tokenizer.json: GGUF cannot represent %s%s%.100s; the model cannot be "
                   "converted without loss",
                   path, what, of[0] ? " " : "", of);
}

static bool same_member(const json_object *a, const json_object *b, const char *key)
{
    json_object *x = json_member(a, key), *y = json_member(b, key);
    const bool absent = !x ||
                        (json_object_is_type(x, json_type_boolean) && !json_object_get_boolean(x)),
               other_absent = !y || (json_object_is_type(y, json_type_boolean) &&
                                     !json_object_get_boolean(y));
    if (absent || other_absent) return absent == other_absent;
    return json_object_equal(x, y) != 0;
}

static json_object *added_with_id(json_object *list, int64_t id)
{
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        json_object *entry = json_object_array_get_idx(list, i), *own = json_member(entry, "id");
        if (own && json_object_get_int64(own) == id) return entry;
    }
    return NULL;
}

static bool added_agree(const json_object *was, const json_object *is, const char *path, ey_err *e)
{
    static const char *const keys[] = {"content", "special",     "lstrip",
                                       "rstrip",  "single_word", "normalized"};
    /* without a normalizer, the last key means nothing */
    const size_t n_keys = sizeof(keys) / sizeof(keys[0]) - (json_member(was, "normalizer") ? 0 : 1);
    json_object *a = json_member_of_type(was, "added_tokens", json_type_array),
                *b = json_member_of_type(is, "added_tokens", json_type_array);
    for (size_t i = 0; a && i < json_object_array_length(a); i++) {
        json_object *entry = json_object_array_get_idx(a, i),
                    *other = added_with_id(b, json_object_get_int64(json_member(entry, "id")));
        for (size_t k = 0; k < n_keys; k++)
            if (!other || !same_member(entry, other, keys[k]))
                return fail_lost(path, keys[k],
                                 json_object_get_string(json_member(entry, "content")), e);
    }
    return true;
}

/* Returns whether a SentencePiece token consists of blanks. */
static bool is_blank_run(const char *text)
{
    static const char blank[] = "\xe2\x96\x81";
    while (strncmp(text, blank, sizeof(blank) - 1) == 0)
        text += sizeof(blank) - 1;
    return !*text;
}

/* Compares merges. For SentencePiece, compares only the tokens that they make: Several
 * merges can make the same token, and GGUF's score per token does not say in which order they come.
 *
 * In SentencePiece vocabularies, runs of blanks have equal scores, so the merges that make them may
 * be in another order. Texts are still tokenized alike if the merge of two single blanks is the
 * last in both lists: then the leftmost run grows first. */
static bool merges_agree(const json_object *was, const json_object *is, const char *path, ey_err *e)
{
    json_object *a = json_member_of_type(json_member(was, "model"), "merges", json_type_array),
                *b = json_member_of_type(json_member(is, "model"), "merges", json_type_array),
                *bytes = json_member(json_member(was, "model"), "byte_fallback");
    struct buf x = buf_with_max(1 << 16), y = buf_with_max(1 << 16);
    const bool pieces = bytes && json_object_get_boolean(bytes);
    const size_t n = a ? json_object_array_length(a) : 0;
    bool same = n == (b ? json_object_array_length(b) : 0), runs_differ = false;
    for (size_t i = 0; same && i < n; i++) {
        same = merge_text(&x, json_object_array_get_idx(a, i), pieces ? "" : " ") &&
               merge_text(&y, json_object_array_get_idx(b, i), pieces ? "" : " ");
        if (!same || strcmp(x.data, y.data) == 0) continue;
        runs_differ = true;
        same = pieces && is_blank_run(x.data) && is_blank_run(y.data);
    }
    if (same && runs_differ)
        same = strcmp(x.data, y.data) == 0 && strcmp(x.data, "\xe2\x96\x81\xe2\x96\x81") == 0;
    buf_free(&x);
    buf_free(&y);
    return same || fail_lost(path, "the order of merges", "", e);
}

static bool has_nfc(const json_object *tokenizer)
{
    json_object *normalizer = json_member(tokenizer, "normalizer");
    return normalizer && strstr(json_object_to_json_string(normalizer), "\"NFC\"");
}

/* Fails if NFC or ignore_merges differ. GGUF has no keys for them: readers infer both from the name
 * of the pre-tokenizer. */
static bool inferred_agree(const json_object *was, const json_object *is, const char *path,
                           ey_err *e)
{
    if (has_nfc(was) != has_nfc(is)) return fail_lost(path, "the normalizer", "", e);
    return same_member(json_member(was, "model"), json_member(is, "model"), "ignore_merges") ||
           fail_lost(path, "ignore_merges", "", e);
}

bool tokenizers_agree(const json_object *was, const json_object *is, const char *path, ey_err *e)
{
    json_object *a = json_member(json_member(was, "model"), "vocab"),
                *b = json_member(json_member(is, "model"), "vocab"),
                *added = json_member(is, "added_tokens"), *id;
    json_object_object_foreach(a, text, own)
    {
        const bool there = json_object_object_get_ex(b, text, &id)
                               ? json_object_get_int64(id) == json_object_get_int64(own)
                               : added_with_id(added, json_object_get_int64(own)) != NULL;
        if (!there) return fail_lost(path, "the token", text, e);
    }
    return added_agree(was, is, path, e) && inferred_agree(was, is, path, e) &&
           merges_agree(was, is, path, e);
}
