/* SPDX-License-Identifier: Apache-2.0 */
/* Added tokens: tries, and the rules for the text around a match. */
#include "tokenizer/added_tokens.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

/* ---- tries ---- */

static uint32_t added_trie_child(const struct added_trie *trie, uint32_t node, uint8_t byte)
{
    const struct pair_slot *slot = pair_map_find(&trie->children, node, byte);
    return slot ? slot->value : 0; /* 0 is the root, which is never a child */
}

/* Returns false if another token has the same content. */
static bool added_trie_insert(struct added_trie *trie, const struct added_token *token,
                              int32_t index)
{
    uint32_t node = 0;
    for (uint32_t i = 0; i < token->n; i++) {
        uint8_t byte = (uint8_t)token->content[i];
        uint32_t child = added_trie_child(trie, node, byte);
        if (!child) {
            child = trie->n_nodes++;
            trie->token[child] = -1;
            pair_map_put(&trie->children, node, byte, child, 0);
        }
        node = child;
    }
    trie->starts[(uint8_t)token->content[0]] = true;
    if (trie->token[node] >= 0) return false;
    trie->token[node] = index;
    return true;
}

static bool added_trie_build(struct added_trie *trie, const struct added_set *set, bool normalized,
                             const char *what, ey_err *e)
{
    size_t n_bytes = 0;
    for (size_t i = 0; i < set->n; i++)
        if (set->tokens[i].in_normalized == normalized) n_bytes += set->tokens[i].n;
    if (!pair_map_init(&trie->children, n_bytes, e)) return false;
    trie->token = calloc(n_bytes + 1, sizeof(*trie->token));
    if (!trie->token)
        return ey_fail_memory(e, "added tokens", (n_bytes + 1) * sizeof(*trie->token));
    trie->token[0] = -1;
    trie->n_nodes = 1;
    for (size_t i = 0; i < set->n; i++) {
        const struct added_token *token = &set->tokens[i];
        if (token->in_normalized == normalized && !added_trie_insert(trie, token, (int32_t)i))
            return ey_fail(e, EY_BAD_MODEL, "%s: added_tokens: \"%.*s\" is listed twice", what,
                           (int)(token->n < 100 ? token->n : 100), token->content);
    }
    return true;
}

bool added_set_index(struct added_set *set, const char *what, ey_err *e)
{
    return added_trie_build(&set->raw, set, false, what, e) &&
           added_trie_build(&set->normalized, set, true, what, e);
}

static void added_trie_finish(struct added_trie *trie)
{
    pair_map_finish(&trie->children);
    free(trie->token);
    *trie = (struct added_trie){0};
}

void added_set_finish(struct added_set *set)
{
    added_trie_finish(&set->raw);
    added_trie_finish(&set->normalized);
    for (size_t i = 0; i < set->n; i++)
        free(set->tokens[i].content);
    free(set->tokens);
    *set = (struct added_set){0};
}

/* Returns the index of the longest token that begins at text[0], or -1. */
static int32_t added_trie_longest(const struct added_trie *trie, const char *text, size_t n)
{
    int32_t found = -1;
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        node = added_trie_child(trie, node, (uint8_t)text[i]);
        if (!node) break;
        if (trie->token[node] >= 0) found = trie->token[node];
    }
    return found;
}

/* ---- neighbors ---- */

static bool is_white_space(uint32_t cp)
{
    return (cp >= 9 && cp <= 13) || cp == 0x20 || cp == 0x85 || cp == 0xa0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 || cp == 0x202f ||
           cp == 0x205f || cp == 0x3000;
}

/* \w of Rust's regex: letters, marks, decimal and letter numbers, connectors, joiners. */
static bool is_word_character(uint32_t cp)
{
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: return cp == 0x200c || cp == 0x200d;
    }
}

/* Returns the offset of the character that ends at `at` > 0. */
static size_t previous_character(const char *text, size_t at, uint32_t *cp)
{
    size_t begin = at;
    do
        begin--;
    while (begin > 0 && (text[begin] & 0xc0) == 0x80);
    utf8_decode(text + begin, at - begin, cp);
    return begin;
}

static bool word_before(const char *text, size_t at)
{
    uint32_t cp = 0;
    if (at == 0) return false;
    previous_character(text, at, &cp);
    return is_word_character(cp);
}

static bool word_after(const char *text, size_t n, size_t at)
{
    uint32_t cp = 0;
    return at < n && utf8_decode(text + at, n - at, &cp) > 0 && is_word_character(cp);
}

static size_t white_space_before(const char *text, size_t at, size_t from)
{
    while (at > from) {
        uint32_t cp = 0;
        size_t begin = previous_character(text, at, &cp);
        if (!is_white_space(cp)) break;
        at = begin;
    }
    return at < from ? from : at;
}

static size_t white_space_after(const char *text, size_t n, size_t at)
{
    while (at < n) {
        uint32_t cp = 0;
        int length = utf8_decode(text + at, n - at, &cp);
        if (length <= 0 || !is_white_space(cp)) break;
        at += (size_t)length;
    }
    return at;
}

size_t added_white_space(const char *text, size_t n)
{
    return white_space_after(text, n, 0);
}

bool added_find(const struct added_set *set, const struct added_trie *trie, const char *text,
                size_t n, size_t from, struct added_match *match)
{
    for (size_t at = from; at < n; at++) {
        if (!trie->starts[(uint8_t)text[at]]) continue;
        int32_t index = added_trie_longest(trie, text + at, n - at);
        if (index < 0) continue;
        const struct added_token *token = &set->tokens[index];
        size_t end = at + token->n;
        if (token->single_word && (word_before(text, at) || word_after(text, n, end))) {
            at = end - 1; /* continue after the rejected match, as the reference does */
            continue;
        }
        match->begin = token->left_strip ? white_space_before(text, at, from) : at;
        match->end = token->right_strip ? white_space_after(text, n, end) : end;
        match->id = token->id;
        return true;
    }
    return false;
}
