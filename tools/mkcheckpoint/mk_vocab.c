/* SPDX-License-Identifier: Apache-2.0 */
/* Makes tokens and merges: first those of words, in the order in which training would find their
 * pieces, then random concatenations of pieces until the size is reached. */
#include "mk_vocab.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static const char *const words[] = {
    "  ",           "    ",
    "        ",     "\n\n",
    "in",           " t",
    "er",           "on",
    " a",           "re",
    "at",           "st",
    "en",           "or",
    " th",          " c",
    "le",           " s",
    "it",           "an",
    "ar",           "al",
    " the",         " p",
    " f",           "ou",
    " =",           "is",
    " in",          "ing",
    " of",          " and",
    " to",          "ed",
    "es",           "ion",
    " is",          " it",
    " that",        " for",
    " on",          " with",
    " as",          " are",
    " was",         " this",
    " be",          " by",
    " an",          " at",
    " from",        " or",
    " not",         " have",
    " you",         " we",
    " they",        " which",
    " one",         " all",
    " there",       " can",
    " has",         " more",
    " what",        " how",
    " many",        " much",
    " where",       " who",
    " why",         " when",
    " do",          " does",
    " your",        " its",
    " their",       " two",
    " three",       " four",
    " five",        " between",
    "user",         "assistant",
    "system",       " user",
    " assistant",   " helpful",
    "You",          " You",
    "What",         "How",
    "The",          "This",
    "Describe",     " describe",
    " image",       "image",
    " images",      " picture",
    "Picture",      " photo",
    " video",       "video",
    " color",       " colour",
    " red",         " green",
    " blue",        " white",
    " black",       " yellow",
    " cat",         " dog",
    " person",      " people",
    " man",         " woman",
    " car",         " tree",
    " house",       " sky",
    " text",        " read",
    " word",        " left",
    " right",       " top",
    " bottom",      " center",
    " box",         "bbox",
    "_2d",          " point",
    " label",       "label",
    " object",      " objects",
    " count",       " number",
    " answer",      "Answer",
    " question",    " yes",
    " no",          "Yes",
    "No",           "hello",
    "Hello",        " hello",
    " world",       "world",
    "tool",         " tool",
    "tools",        "function",
    " function",    "name",
    " name",        "arguments",
    " arguments",   "type",
    "string",       "parameters",
    "properties",   "description",
    "required",     "json",
    "JSON",         "```",
    "\":",          " \"",
    "\",",          " {",
    "}\n",          "():",
    ".\n",          ",\n",
    ";\n",          "...",
    " -",           "--",
    " (",           ")",
    "://",          "http",
    "https",        " <",
    "</",           "caf\xc3\xa9",
    "\xc3\xa9",     "\xc3\xbc",
    "\xc3\xb6",     "\xc3\xa4",
    "\xc3\xb1",     "\xe2\x80\x99",
    "\xe2\x80\x9c", "\xe2\x80\xa6",
    "\xe4\xb8\xad", "\xe6\x96\x87",
    "\xe4\xbd\xa0", "\xe5\xa5\xbd",
    "\xd0\xb0",     "\xd0\xbe",
    "\xce\xb1",     "\xf0\x9f\x98\x80",
    " would",       " should",
    " about",       " other",
    " into",        " small",
    " large",       " very",
    " some",        " like",
    " time",        " water",
    " light",       " near",
    " behind",      " front",
    " under",       " over",
    "'s",           "'t",
    "ly",           "ment",
    "able",         "ness",
    "tion",         " un",
    " con",         " pro",
    " ex",          " de",
};

int byte_of_token(int id)
{
    if (id < 94) return id + 33;
    if (id < 106) return id - 94 + 161;
    if (id < 188) return id - 106 + 174;
    int rest = id - 188; /* the 68 bytes that have no letter of their own, ascending */
    return rest < 33 ? rest : rest < 67 ? rest - 33 + 127 : 173;
}

uint32_t letter_of_byte(int byte)
{
    if ((byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174)
        return (uint32_t)byte;
    return 256 + (uint32_t)(byte < 33 ? byte : byte < 161 ? byte - 127 + 33 : 67);
}

/* ---- hash table of tokens ---- */

static int32_t *slot_of(const struct mk_vocab *v, const char *bytes, size_t n)
{
    uint64_t hash = fnv1a_64(FNV1A_64_START, bytes, n);
    for (size_t at = hash & (v->n_slots - 1);; at = (at + 1) & (v->n_slots - 1)) {
        const struct mk_token *t = v->slots[at] ? &v->tokens[v->slots[at] - 1] : NULL;
        if (!t || (t->n == n && memcmp(t->bytes, bytes, n) == 0)) return &v->slots[at];
    }
}

static int find_token(const struct mk_vocab *v, const char *bytes, size_t n)
{
    return *slot_of(v, bytes, n) - 1;
}

static void add_token(struct mk_vocab *v, const char *bytes, size_t n, int left, int right)
{
    int32_t *slot = slot_of(v, bytes, n);
    struct mk_token *t = &v->tokens[v->n++];
    *t = (struct mk_token){.n = (uint8_t)n, .left = left, .right = right};
    memcpy(t->bytes, bytes, n);
    *slot = v->n;
}

/* ---- merges ---- */

/* Writes the bytes of both tokens to `out` and returns their length, or 0 if they are too long. */
static size_t joined(const struct mk_vocab *v, int left, int right, char out[MK_TOKEN_BYTES])
{
    const struct mk_token *a = &v->tokens[left], *b = &v->tokens[right];
    if (a->n + b->n > MK_TOKEN_BYTES) return 0;
    memcpy(out, a->bytes, a->n);
    memcpy(out + a->n, b->bytes, b->n);
    return (size_t)a->n + b->n;
}

/* Returns the token into which the pair merges, or -1. */
static int merge_of(const struct mk_vocab *v, int left, int right)
{
    char bytes[MK_TOKEN_BYTES];
    size_t n = joined(v, left, right, bytes);
    int t = n ? find_token(v, bytes, n) : -1;
    return t >= MK_BYTES && v->tokens[t].left == left && v->tokens[t].right == right ? t : -1;
}

/* Merges symbols like the tokenizer, lowest rank first. Returns the number of symbols that remain.
 */
static int apply_merges(const struct mk_vocab *v, int *symbols, int n)
{
    for (;;) {
        int best = -1, at = 0;
        for (int i = 0; i + 1 < n; i++) {
            int t = merge_of(v, symbols[i], symbols[i + 1]);
            if (t >= 0 && (best < 0 || t < best)) {
                best = t;
                at = i;
            }
        }
        if (best < 0) return n;
        symbols[at] = best;
        memmove(&symbols[at + 1], &symbols[at + 2], (size_t)(n - at - 2) * sizeof(symbols[0]));
        n--;
    }
}

/* Adds the merges that turn a word into one token. Starts from the symbols that the existing merges
 * leave. */
static void add_word(struct mk_vocab *v, const char *word)
{
    int symbols[MK_TOKEN_BYTES], n = (int)strlen(word);
    for (int i = 0; i < n; i++)
        symbols[i] = find_token(v, &word[i], 1);
    while (v->n < v->wanted && (n = apply_merges(v, symbols, n)) > 1) {
        char bytes[MK_TOKEN_BYTES];
        size_t length = joined(v, symbols[0], symbols[1], bytes);
        if (find_token(v, bytes, length) >= 0) return; /* other merges make the same bytes */
        add_token(v, bytes, length, symbols[0], symbols[1]);
    }
}

/* ---- made-up words ---- */

static bool is_word_piece(const struct mk_token *t, bool blank_allowed)
{
    for (int i = 0; i < t->n; i++) {
        bool letter = isascii((unsigned char)t->bytes[i]) && isalpha((unsigned char)t->bytes[i]);
        if (!letter && !(blank_allowed && i == 0 && t->bytes[0] == ' ')) return false;
    }
    return true;
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Returns the smaller of two random ids, so that short, early tokens are merged more often. */
static int draw_token(const struct mk_vocab *v, uint64_t *state)
{
    int a = (int)(next_random(state) % (uint64_t)v->n),
        b = (int)(next_random(state) % (uint64_t)v->n);
    return a < b ? a : b;
}

static void add_made_up_words(struct mk_vocab *v)
{
    uint64_t state = 1;
    while (v->n < v->wanted) {
        int left = draw_token(v, &state), right = draw_token(v, &state);
        char bytes[MK_TOKEN_BYTES];
        if (!is_word_piece(&v->tokens[left], true) || !is_word_piece(&v->tokens[right], false))
            continue;
        size_t n = joined(v, left, right, bytes);
        if (n && find_token(v, bytes, n) < 0) add_token(v, bytes, n, left, right);
    }
}

/* ---- the whole ---- */

bool vocab_make(struct mk_vocab *v, int size, bool reranks, ey_err *e)
{
    *v = (struct mk_vocab){.wanted = size, .n_slots = 1024};
    while (v->n_slots < 2 * (size_t)size)
        v->n_slots *= 2;
    v->tokens = malloc((size_t)size * sizeof(*v->tokens));
    v->slots = calloc(v->n_slots, sizeof(*v->slots));
    if (!v->tokens || !v->slots) {
        vocab_free(v);
        return ey_fail_memory(e, "the vocabulary", (size_t)size * sizeof(*v->tokens));
    }
    for (int id = 0; id < MK_BYTES; id++)
        add_token(v, (char[]){(char)byte_of_token(id)}, 1, -1, -1);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        add_word(v, words[i]);
    if (reranks) {
        add_word(v, "yes");
        add_word(v, "no");
    }
    add_made_up_words(v);
    return true;
}

void vocab_free(struct mk_vocab *v)
{
    free(v->tokens);
    free(v->slots);
    *v = (struct mk_vocab){0};
}
