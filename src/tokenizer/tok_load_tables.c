/* SPDX-License-Identifier: Apache-2.0 */
/* Loads vocabulary, merges and added tokens of tokenizer.json. Each id is checked against the
 * limits before it sizes a table. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "tokenizer/tok_load.h"

enum { MAX_MISSING_BYTES = 32 }; /* single-byte tokens that a byte-level vocabulary may lack */

#define NO_TOKEN TOK_NO_TOKEN

/* ---- vocabulary ---- */

static bool token_length_fits(const struct loading *l, const char *member, const char *content,
                              size_t n)
{
    if (n == 0) return ey_fail(l->e, EY_BAD_MODEL, "%s: %s has an empty token", l->what, member);
    return n <= EY_MAX_TOKEN_BYTES ||
           ey_fail(l->e, EY_BAD_MODEL, "%s: %s: \"%.40s…\" has %zu bytes; the limit is %d", l->what,
                   member, content, n, EY_MAX_TOKEN_BYTES);
}

static bool fail_id_taken(const struct loading *l, const char *member, const char *content,
                          int64_t id)
{
    const struct vocab *v = &l->tok->vocab;
    const struct token *other = vocab_token(v, id);
    return ey_fail(l->e, EY_BAD_MODEL,
                   "%s: %s: \"%.100s\" has id %" PRId64 ", which is already that of \"%.*s\"",
                   l->what, member, content, id, other->n < 100 ? other->n : 100,
                   v->bytes + other->at);
}

/* Decodes a token's spelling to at most n bytes. Returns false if no text encodes to it. */
static bool token_bytes(const struct tokenizer *tok, const char *content, size_t n, char *out,
                        size_t *n_out)
{
    if (tok->pipeline == TOK_BYTE_LEVEL) return byte_level_decode(content, n, out, n_out);
    return metaspace_decode(content, n, out, n_out);
}

/* Returns the byte that "<0x0A>" stands for, or -1 for other tokens. */
static int byte_token(const struct tokenizer *tok, const char *content, size_t n)
{
    static const char digits[] = "0123456789ABCDEF";
    if (tok->pipeline != TOK_SENTENCEPIECE || n != 6 || memcmp(content, "<0x", 3) ||
        content[5] != '>')
        return -1;
    const char *high = memchr(digits, content[3], 16), *low = memchr(digits, content[4], 16);
    return high && low ? (int)((high - digits) * 16 + (low - digits)) : -1;
}

static bool load_vocab_entry(struct loading *l, const char *content, json_object *value)
{
    struct vocab *v = &l->tok->vocab;
    char bytes[EY_MAX_TOKEN_BYTES];
    size_t n_content = strlen(content), n;
    int64_t id = json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : -1;
    if (id < 0 || id >= EY_MAX_VOCAB_SIZE)
        return ey_fail(
            l->e, EY_BAD_MODEL,
            "%s: model.vocab: \"%.100s\" has id %.40s; it must be an integer from 0 to %d", l->what,
            content, tok_shown(value), EY_MAX_VOCAB_SIZE - 1);
    if (!token_length_fits(l, "model.vocab", content, n_content)) return false;
    if (vocab_token(v, id)) return fail_id_taken(l, "model.vocab", content, id);
    int byte = byte_token(l->tok, content, n_content);
    if (byte >= 0) {
        l->tok->byte_id[byte] = (uint32_t)id;
        return vocab_put(v, (uint32_t)id, (const char[]){(char)byte}, 1, l->e);
    }
    /* No text encodes to this token, which decodes to its own spelling. */
    if (!token_bytes(l->tok, content, n_content, bytes, &n))
        return vocab_put(v, (uint32_t)id, content, n_content, l->e);
    if (!vocab_put(v, (uint32_t)id, bytes, n, l->e)) return false;
    vocab_index(v, (uint32_t)id); /* an object has distinct keys, so the bytes are distinct, too */
    return true;
}

/* A byte-level vocabulary may lack bytes that its training text did not have. As in the reference,
 * the encoder drops them. */
static bool find_byte_tokens(const struct loading *l)
{
    const bool byte_level = l->tok->pipeline == TOK_BYTE_LEVEL;
    int missing = 0, first = -1;
    for (int byte = 255; byte >= 0; byte--) {
        uint32_t *id = &l->tok->byte_id[byte];
        if (byte_level) *id = (uint32_t)vocab_find(&l->tok->vocab, (const char[]){(char)byte}, 1);
        if (*id != NO_TOKEN) continue;
        first = byte;
        missing++;
    }
    return missing <= (byte_level ? MAX_MISSING_BYTES : 0) ||
           ey_fail(l->e, EY_BAD_MODEL, "%s: model.vocab has no token for the byte 0x%02x", l->what,
                   first);
}

static bool load_vocab(struct loading *l, json_object *entries)
{
    if (!entries) return ey_fail(l->e, EY_BAD_MODEL, "%s: model.vocab is not an object", l->what);
    if (!vocab_init(&l->tok->vocab, (size_t)json_object_object_length(entries), l->e)) return false;
    for (int byte = 0; byte < 256; byte++)
        l->tok->byte_id[byte] = NO_TOKEN;
    json_object_object_foreach(entries, content, value)
    {
        if (!load_vocab_entry(l, content, value)) return false;
    }
    return find_byte_tokens(l);
}

/* ---- merges ---- */

struct merge_part {
    const char *p;
    size_t n;
};

/* "A B" or ["A", "B"]. */
static bool split_merge(const json_object *merge, struct merge_part *a, struct merge_part *b)
{
    if (json_object_is_type(merge, json_type_string)) {
        const char *text = json_object_get_string((json_object *)merge);
        const char *space = strchr(text, ' ');
        if (!space || strchr(space + 1, ' ')) return false;
        *a = (struct merge_part){text, (size_t)(space - text)};
        *b = (struct merge_part){space + 1, strlen(space + 1)};
    } else {
        if (!json_object_is_type(merge, json_type_array) || json_object_array_length(merge) != 2)
            return false;
        json_object *left = json_object_array_get_idx(merge, 0),
                    *right = json_object_array_get_idx(merge, 1);
        if (!json_object_is_type(left, json_type_string) ||
            !json_object_is_type(right, json_type_string))
            return false;
        *a = (struct merge_part){json_object_get_string(left),
                                 (size_t)json_object_get_string_len(left)};
        *b = (struct merge_part){json_object_get_string(right),
                                 (size_t)json_object_get_string_len(right)};
    }
    return a->n && b->n;
}

static bool fail_not_in_vocab(const struct loading *l, size_t rank, struct merge_part text)
{
    return ey_fail(l->e, EY_BAD_MODEL, "%s: model.merges[%zu]: \"%.*s\" is not in model.vocab",
                   l->what, rank, (int)(text.n < 100 ? text.n : 100), text.p);
}

/* Writes the bytes of one part to `out` and returns its id, or -1. */
static int32_t merge_part_id(const struct tokenizer *tok, struct merge_part part,
                             char out[EY_MAX_TOKEN_BYTES], size_t *n)
{
    if (part.n > EY_MAX_TOKEN_BYTES || !token_bytes(tok, part.p, part.n, out, n)) return -1;
    return vocab_find(&tok->vocab, out, *n);
}

/* Returns the id of a merged token, or -1. Files mostly list merges in the order of merged ids, so
 * the id after the last one is tried first. */
static int64_t merged_id(const struct vocab *v, int64_t last, const char *bytes, size_t n)
{
    return vocab_token_is(v, last + 1, bytes, n) ? last + 1 : vocab_find(v, bytes, n);
}

/* *last is the merged id of the previous merge, and is set to that of this one. */
static bool load_merge(struct loading *l, const json_object *merge, size_t rank, int64_t *last)
{
    struct merge_part a, b;
    char whole[2 * EY_MAX_TOKEN_BYTES];
    size_t n_a = 0, n_b = 0;
    if (!split_merge(merge, &a, &b))
        return ey_fail(l->e, EY_BAD_MODEL,
                       "%s: model.merges[%zu] is %.100s; it must be \"A B\" or [\"A\", \"B\"]",
                       l->what, rank, tok_shown((json_object *)merge));
    int32_t left = merge_part_id(l->tok, a, whole, &n_a);
    if (left < 0) return fail_not_in_vocab(l, rank, a);
    int32_t right = merge_part_id(l->tok, b, whole + n_a, &n_b);
    if (right < 0) return fail_not_in_vocab(l, rank, b);
    *last = merged_id(&l->tok->vocab, *last, whole, n_a + n_b);
    if (*last < 0)
        return ey_fail(
            l->e, EY_BAD_MODEL,
            "%s: model.merges[%zu]: the result of \"%.*s\" and \"%.*s\" is not in model.vocab",
            l->what, rank, (int)(a.n < 100 ? a.n : 100), a.p, (int)(b.n < 100 ? b.n : 100), b.p);
    pair_map_put(&l->tok->merges, (uint32_t)left, (uint32_t)right, (uint32_t)rank, (uint32_t)*last);
    return true;
}

static bool load_merges(struct loading *l, const json_object *merges)
{
    if (!merges) return ey_fail(l->e, EY_BAD_MODEL, "%s: model.merges is not an array", l->what);
    size_t n = json_object_array_length(merges);
    if (n > EY_MAX_MERGES)
        return ey_fail(l->e, EY_BAD_MODEL, "%s: model.merges has %zu items; the limit is %d",
                       l->what, n, EY_MAX_MERGES);
    if (!pair_map_init(&l->tok->merges, n, l->e)) return false;
    int64_t last = -1;
    for (size_t i = 0; i < n; i++)
        if (!load_merge(l, json_object_array_get_idx(merges, i), i, &last)) return false;
    return true;
}

/* ---- added tokens ---- */

/* An added token that is also in the vocabulary must have the same id there. */
static bool put_added(struct loading *l, int64_t id, const char *content, size_t n, bool special)
{
    struct vocab *v = &l->tok->vocab;
    const struct token *token = vocab_token(v, id);
    if (token && (token->added || !vocab_token_is(v, id, content, n)))
        return fail_id_taken(l, "added_tokens", content, id);
    if (!token) {
        int32_t other = vocab_find(v, content, n);
        if (other >= 0)
            return ey_fail(l->e, EY_BAD_MODEL,
                           "%s: added_tokens: \"%.100s\" has id %" PRId64
                           ", but model.vocab gives it %d",
                           l->what, content, id, other);
        if (!vocab_put(v, (uint32_t)id, content, n, l->e)) return false;
    }
    v->tokens[id].added = true;
    v->tokens[id].special = special;
    return true;
}

/* A token matched in normalized text is normalized itself, as in the reference. */
static bool copy_content(const struct loading *l, struct added_token *added, const char *content,
                         size_t n)
{
    struct buf copy = buf_with_max(3 * EY_MAX_TOKEN_BYTES + 1);
    if (!(added->in_normalized ? tok_normalize(l->tok, &copy, content, n)
                               : buf_add(&copy, content, n))) {
        buf_free(&copy);
        return ey_fail_memory(l->e, "an added token", n);
    }
    added->content = copy.data; /* now owned by `added` */
    added->n = (uint32_t)copy.size;
    return true;
}

static bool read_added_flags(const struct loading *l, const json_object *entry,
                             struct added_token *added, bool *special)
{
    return json_optional_bool(entry, "special", special, "added_tokens", l->e) &&
           json_optional_bool(entry, "lstrip", &added->left_strip, "added_tokens", l->e) &&
           json_optional_bool(entry, "rstrip", &added->right_strip, "added_tokens", l->e) &&
           json_optional_bool(entry, "single_word", &added->single_word, "added_tokens", l->e) &&
           json_optional_bool(entry, "normalized", &added->in_normalized, "added_tokens", l->e);
}

static bool load_added_token(struct loading *l, const json_object *entry, struct added_token *added)
{
    int64_t id;
    bool special = false;
    json_object *text = json_member_of_type(entry, "content", json_type_string);
    if (!json_int(entry, "id", 0, EY_MAX_VOCAB_SIZE - 1, &id, "added_tokens", l->e) ||
        !read_added_flags(l, entry, added, &special))
        return ey_fail_within(l->e, "%s", l->what);
    if (!text)
        return ey_fail(l->e, EY_BAD_MODEL,
                       "%s: added_tokens: the token with id %" PRId64 " has no content", l->what,
                       id);
    const char *content = json_object_get_string(text);
    size_t n = (size_t)json_object_get_string_len(text);
    added->id = (int32_t)id;
    return token_length_fits(l, "added_tokens", content, n) &&
           put_added(l, id, content, n, special) && copy_content(l, added, content, n);
}

static bool load_added(struct loading *l, const json_object *list)
{
    struct added_set *set = &l->tok->added;
    if (list && !json_object_is_type(list, json_type_array))
        return ey_fail(l->e, EY_BAD_MODEL, "%s: added_tokens is not an array", l->what);
    size_t n = list ? json_object_array_length(list) : 0;
    set->tokens = calloc(n ? n : 1, sizeof(*set->tokens));
    if (!set->tokens) return ey_fail_memory(l->e, "added tokens", n * sizeof(*set->tokens));
    for (; set->n < n; set->n++)
        if (!load_added_token(l, json_object_array_get_idx(list, set->n), &set->tokens[set->n]))
            return false;
    return added_set_index(set, l->what, l->e);
}

bool tok_load_tables(struct loading *l, const json_object *model)
{
    return load_vocab(l, json_member_of_type(model, "vocab", json_type_object)) &&
           load_merges(l, json_member_of_type(model, "merges", json_type_array)) &&
           load_added(l, json_member(l->root, "added_tokens"));
}
