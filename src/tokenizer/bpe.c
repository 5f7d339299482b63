/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair encoding of one piece: merges the leftmost pair of the lowest rank until no pair can be
 * merged.
 *
 * Most pieces are short words, for which a linear search for the lowest rank is fastest. A long
 * piece (a megabyte of one letter is one piece) uses a heap of pairs over a linked list, in O(n log
 * n). */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer_internal.h"

enum { SHORT_PIECE = 64 };

/* A merge is one number: its upper half is the rank, its lower half the merged id. The smallest is
 * merged next. */
#define NO_MERGE UINT64_MAX

static uint64_t merge_of(const struct tokenizer *tok, uint32_t left, uint32_t right)
{
    const struct pair_slot *slot = pair_map_find(&tok->merges, left, right);
    return slot ? (uint64_t)slot->value << 32 | slot->extra : NO_MERGE;
}

/* ---- first symbols ---- */

/* Writes the initial symbols of the first character of `text` (of the first byte if byte-level) to
 * `id`, and the length of the character to *used; n >= 1. Returns the number of symbols: at most 4,
 * or 0 if the byte has no token. */
static int first_symbols(const struct tokenizer *tok, const char *text, size_t n, uint32_t id[4],
                         size_t *used)
{
    int length = tok->pipeline == TOK_SENTENCEPIECE ? utf8_decode(text, n, NULL) : 1;
    if (length < 1) length = 1;
    *used = (size_t)length;
    int32_t whole = tok->pipeline == TOK_SENTENCEPIECE ? vocab_find(&tok->vocab, text, *used) : -1;
    if (whole >= 0) {
        id[0] = (uint32_t)whole;
        return 1;
    }
    int n_ids = 0;
    for (int i = 0; i < length; i++)
        if (tok->byte_id[(uint8_t)text[i]] != TOK_NO_TOKEN)
            id[n_ids++] = tok->byte_id[(uint8_t)text[i]];
    return n_ids;
}

/* ---- short pieces ---- */

static int least_merge(const uint64_t *merge, int n)
{
    int least = 0;
    for (int i = 1; i < n; i++)
        if (merge[i] < merge[least]) least = i;
    return least;
}

static void drop_symbol(uint32_t *id, uint64_t *merge, int at, int n)
{
    memmove(id + at, id + at + 1, (size_t)(n - at - 1) * sizeof(*id));
    memmove(merge + at, merge + at + 1, (size_t)(n - at - 1) * sizeof(*merge));
}

static bool encode_short(const struct tokenizer *tok, const char *piece, size_t n_bytes,
                         struct ids *out)
{
    uint32_t id[SHORT_PIECE + 4];
    uint64_t merge[SHORT_PIECE]; /* merge of id[i] with id[i + 1] */
    int n = 0;                   /* at most one symbol per byte */
    for (size_t at = 0, used; at < n_bytes; at += used)
        n += first_symbols(tok, piece + at, n_bytes - at, id + n, &used);
    if (!n) return true;
    for (int i = 0; i + 1 < n; i++)
        merge[i] = merge_of(tok, id[i], id[i + 1]);
    merge[n - 1] = NO_MERGE;
    for (;;) {
        int i = least_merge(merge, n);
        if (merge[i] == NO_MERGE) break;
        id[i] = (uint32_t)merge[i];
        drop_symbol(id, merge, i + 1, n--);
        merge[i] = i + 1 < n ? merge_of(tok, id[i], id[i + 1]) : NO_MERGE;
        if (i > 0) merge[i - 1] = merge_of(tok, id[i - 1], id[i]);
    }
    for (int i = 0; i < n; i++)
        if (!ids_push(out, (int32_t)id[i])) return false;
    return true;
}

/* ---- long pieces ---- */

#define NO_SYMBOL UINT32_MAX

struct bpe_symbol {
    uint64_t merge; /* merge with the next symbol; NO_MERGE also if this symbol was merged away */
    uint32_t id, previous, next;
};

/* The upper half of a heap entry is the rank, the lower half the symbol. Stale entries are skipped
 * when popped. */
static bool heap_push(struct bpe *b, uint64_t entry)
{
    if (b->n_heap == b->heap_capacity) {
        size_t capacity = b->heap_capacity ? b->heap_capacity * 2 : 256;
        uint64_t *heap = realloc(b->heap, capacity * sizeof(*heap));
        if (!heap) return false;
        b->heap = heap;
        b->heap_capacity = capacity;
    }
    size_t at = b->n_heap++;
    for (; at > 0 && b->heap[(at - 1) / 2] > entry; at = (at - 1) / 2)
        b->heap[at] = b->heap[(at - 1) / 2];
    b->heap[at] = entry;
    return true;
}

static uint64_t heap_pop(struct bpe *b)
{
    uint64_t top = b->heap[0], last = b->heap[--b->n_heap];
    size_t at = 0, n = b->n_heap;
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && b->heap[child + 1] < b->heap[child]) child++;
        if (b->heap[child] >= last) break;
        b->heap[at] = b->heap[child];
    }
    b->heap[at] = last;
    return top;
}

/* Looks up the merge of a symbol with its next one and queues it. */
static bool queue_pair(struct bpe *b, uint32_t at)
{
    struct bpe_symbol *s = &b->symbols[at];
    s->merge = s->next == NO_SYMBOL ? NO_MERGE : merge_of(b->tok, s->id, b->symbols[s->next].id);
    return s->merge == NO_MERGE || heap_push(b, (s->merge >> 32 << 32) | at);
}

static bool symbols_start(struct bpe *b, const char *piece, size_t n)
{
    size_t bytes;
    if (n >= NO_SYMBOL || !checked_mul(n, sizeof(*b->symbols), &bytes)) return false;
    if (n > b->n_symbols) {
        free(b->symbols);
        b->symbols = malloc(bytes);
        b->n_symbols = b->symbols ? n : 0;
        if (!b->symbols) return false;
    }
    uint32_t count = 0, id[4];
    for (size_t at = 0, used; at < n; at += used) {
        int n_ids = first_symbols(b->tok, piece + at, n - at, id, &used);
        for (int i = 0; i < n_ids; i++, count++)
            b->symbols[count] = (struct bpe_symbol){.merge = NO_MERGE,
                                                    .id = id[i],
                                                    .previous = count ? count - 1 : NO_SYMBOL,
                                                    .next = count + 1};
    }
    b->n_heap = 0;
    b->n_first = count;
    if (!count) return true;
    b->symbols[count - 1].next = NO_SYMBOL;
    for (uint32_t i = 0; i < count; i++)
        if (!queue_pair(b, i)) return false;
    return true;
}

static bool merge_next(struct bpe *b, uint32_t at)
{
    struct bpe_symbol *s = &b->symbols[at], *gone = &b->symbols[s->next];
    s->id = (uint32_t)s->merge;
    s->next = gone->next;
    gone->merge = NO_MERGE;
    if (s->next != NO_SYMBOL) b->symbols[s->next].previous = at;
    return queue_pair(b, at) && (s->previous == NO_SYMBOL || queue_pair(b, s->previous));
}

static bool encode_long(struct bpe *b, const char *piece, size_t n, struct ids *out)
{
    if (!symbols_start(b, piece, n)) return false;
    while (b->n_heap) {
        uint64_t entry = heap_pop(b);
        uint32_t at = (uint32_t)entry;
        bool current = b->symbols[at].merge >> 32 == entry >> 32;
        if (current && !merge_next(b, at)) return false;
    }
    for (uint32_t at = b->n_first ? 0 : NO_SYMBOL; at != NO_SYMBOL; at = b->symbols[at].next)
        if (!ids_push(out, (int32_t)b->symbols[at].id)) return false;
    return true;
}

bool bpe_encode(struct bpe *b, const char *piece, size_t n, struct ids *out, ey_err *e)
{
    if (b->tok->ignore_merges) {
        int32_t whole = vocab_find(&b->tok->vocab, piece, n);
        if (whole >= 0)
            return ids_push(out, whole) ||
                   ey_fail_memory(e, "token ids", out->n * sizeof(*out->id));
    }
    bool ok = n <= SHORT_PIECE ? encode_short(b->tok, piece, n, out)
                               : encode_long(b, piece, n, out);
    return ok || ey_fail_memory(e, "merging a word", n * sizeof(*b->symbols));
}

void bpe_finish(struct bpe *b)
{
    free(b->symbols);
    free(b->heap);
    *b = (struct bpe){0};
}
