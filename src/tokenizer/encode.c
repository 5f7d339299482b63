/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes text as ids: repairs UTF-8, splits at added tokens, normalizes, splits at added tokens
 * again (some match only normalized text), pre-tokenizes, and merges. */
#include "base/limits.h"
#include "base/processors.h"
#include "base/utf8.h"
#include "tokenizer/normalize.h"
#include "tokenizer/tokenizer_internal.h"

bool tok_normalize(const struct tokenizer *tok, struct buf *out, const char *text, size_t n)
{
    if (tok->pipeline == TOK_SENTENCEPIECE) return text_add_dummy_prefix(out, text, n);
    return tok->nfc ? text_nfc(out, text, n) : buf_add(out, text, n);
}

bool tok_normal_quick_check(const struct tokenizer *tok, const char *text, size_t n)
{
    return tok->pipeline == TOK_BYTE_LEVEL && (!tok->nfc || text_nfc_quick_check(text, n));
}

/* Repair and NFC each grow a text at most threefold. */
#define MAX_REPAIRED ((size_t)3 * EY_MAX_TEXT_BYTES)
#define MAX_COMPOSED (3 * MAX_REPAIRED)

struct encoding {
    const struct tokenizer *tok;
    bool parse_special;
    struct bpe bpe;
    struct pretok_scan scan;
    struct buf normal; /* scratch */
    struct ids *out;
    ey_err *e;
};

typedef bool encode_fn(struct encoding *enc, const char *text, size_t n);

static bool encode_pieces(struct encoding *enc, const char *text, size_t n)
{
    if (enc->tok->pipeline == TOK_SENTENCEPIECE)
        return n == 0 || bpe_encode(&enc->bpe, text, n, enc->out, enc->e);
    pretok_scan_begin(&enc->scan, text, n);
    for (;;) {
        size_t begin, end;
        if (!pretok_scan_next(&enc->scan, &begin, &end, enc->e)) return false;
        if (begin == end) return true;
        if (!bpe_encode(&enc->bpe, text + begin, end - begin, enc->out, enc->e)) return false;
    }
}

/* Appends the added tokens that `trie` finds and passes the text between them to `plain`. */
static bool encode_around(struct encoding *enc, const struct added_trie *trie, const char *text,
                          size_t n, encode_fn *plain)
{
    size_t at = 0;
    struct added_match match;
    while (added_find(&enc->tok->added, trie, text, n, at, &match)) {
        if (match.begin > at && !plain(enc, text + at, match.begin - at)) return false;
        if (!ids_push(enc->out, match.id)) return ey_fail_memory(enc->e, "token ids", enc->out->n);
        at = match.end;
    }
    return at == n || plain(enc, text + at, n - at);
}

static bool encode_normalized(struct encoding *enc, const char *text, size_t n)
{
    if (!enc->parse_special) return encode_pieces(enc, text, n);
    return encode_around(enc, &enc->tok->added.normalized, text, n, encode_pieces);
}

static bool encode_segment(struct encoding *enc, const char *text, size_t n)
{
    if (tok_normal_quick_check(enc->tok, text, n)) return encode_normalized(enc, text, n);
    buf_clear(&enc->normal);
    if (!tok_normalize(enc->tok, &enc->normal, text, n))
        return ey_fail_memory(enc->e, "text in its normal form", n);
    return encode_normalized(enc, enc->normal.data, enc->normal.size);
}

static bool encode_valid(struct encoding *enc, const char *text, size_t n)
{
    if (n == 0) return true;
    if (!enc->parse_special) return encode_segment(enc, text, n);
    return encode_around(enc, &enc->tok->added.raw, text, n, encode_segment);
}

static bool encode_repaired(struct encoding *enc, const char *text, size_t n)
{
    if (utf8_valid(text, n)) return encode_valid(enc, text, n);
    struct buf repaired = buf_with_max(MAX_REPAIRED);
    bool ok = text_repair(&repaired, text, n) || ey_fail_memory(enc->e, "text", n);
    ok = ok && encode_valid(enc, repaired.data, repaired.size);
    buf_free(&repaired);
    return ok;
}

/* Long texts wait for a compute turn, so that only a few are encoded concurrently. */
static bool encode_in_turn(struct encoding *enc, const char *text, size_t n)
{
    enum { LONG_TEXT = 64 << 10 };
    if (n <= LONG_TEXT) return encode_repaired(enc, text, n);
    if (!compute_turn_take(enc->e)) return false;
    bool ok = encode_repaired(enc, text, n);
    compute_turn_give();
    return ok;
}

bool tokenizer_encode(const struct tokenizer *tok, const char *text, size_t n, bool parse_special,
                      struct ids *out, ey_err *e)
{
    if (n > EY_MAX_TEXT_BYTES)
        return ey_fail(e, EY_TOO_LONG, "the text has %zu bytes; the limit is %d", n,
                       EY_MAX_TEXT_BYTES);
    size_t n_before = out->n;
    struct encoding enc = {.tok = tok,
                           .parse_special = parse_special,
                           .bpe = {.tok = tok},
                           .out = out,
                           .e = e,
                           .normal = buf_with_max(MAX_COMPOSED)};
    bool ok = pretok_scan_init(&enc.scan, &tok->pretok, e) && encode_in_turn(&enc, text, n);
    if (!ok) out->n = n_before;
    pretok_scan_finish(&enc.scan);
    bpe_finish(&enc.bpe);
    buf_free(&enc.normal);
    return ok;
}
