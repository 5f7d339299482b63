/* SPDX-License-Identifier: Apache-2.0 */
/* Converts token ids to text, one token at a time, in whole characters (spec 6.5). */
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/tokenizer_internal.h"

struct detok detok_start(const struct tokenizer *tok)
{
    return (struct detok){.tok = tok, .strip = tok->pipeline == TOK_SENTENCEPIECE};
}

/* Appends U+FFFD for n malformed bytes: one for all of them, or one per byte with byte fallback, as
 * the reference does. */
static bool add_replacement(const struct detok *d, size_t n, struct buf *out)
{
    if (d->tok->pipeline == TOK_BYTE_LEVEL) n = 1;
    for (; n; n--)
        if (!buf_add(out, "\xef\xbf\xbd", 3)) return false;
    return true;
}

/* Emits the character that the last byte has completed, if any. */
static bool flush_tail(struct detok *d, struct buf *out)
{
    while (d->n_tail) {
        int length = utf8_decode(d->tail, (size_t)d->n_tail, NULL);
        if (length < 0) return true;
        size_t used = length > 0 ? (size_t)length : utf8_bad_length(d->tail, (size_t)d->n_tail);
        bool ok = length > 0 ? buf_add(out, d->tail, used) : add_replacement(d, used, out);
        if (!ok) return false;
        d->n_tail -= (int)used;
        memmove(d->tail, d->tail + used, (size_t)d->n_tail);
    }
    return true;
}

bool detok_push(struct detok *d, int32_t id, struct buf *out)
{
    const struct token *token = vocab_token(&d->tok->vocab, id);
    if (!token || token->special) return true;
    const char *bytes = d->tok->vocab.bytes + token->at;
    uint32_t first = d->strip && token->n && bytes[0] == ' ';
    d->strip = false;
    for (uint32_t i = first; i < token->n; i++) {
        d->tail[d->n_tail++] = bytes[i]; /* at most 3 bytes are pending */
        if (!flush_tail(d, out)) return false;
    }
    return true;
}

bool detok_finish(struct detok *d, struct buf *out)
{
    int n = d->n_tail;
    d->n_tail = 0;
    return n == 0 || add_replacement(d, (size_t)n, out);
}
