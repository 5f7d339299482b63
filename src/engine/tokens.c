/* SPDX-License-Identifier: Apache-2.0 */
/* Converts between text and token ids without running the model. */
#include <stdlib.h>

#include "base/limits.h"
#include "base/utf8.h"
#include "constrain/constrain.h"
#include "engine/engine_internal.h"

bool ey_tokenize(const ey_engine *engine, const char *text, size_t n_text, bool parse_special,
                 int **ids, size_t *n, ey_err *e)
{
    struct ids list = {0};
    *ids = NULL;
    *n = 0;
    bool ok = tokenizer_encode(engine->devices.tok, text, n_text, parse_special, &list, e);
    int *copy = ok ? malloc((list.n + 1) * sizeof(*copy)) : NULL;
    if (ok && !copy) ok = ey_fail_memory(e, "token ids", list.n * sizeof(*copy));
    for (size_t i = 0; ok && i < list.n; i++)
        copy[i] = list.id[i];
    if (ok) {
        *ids = copy;
        *n = list.n;
    }
    ids_free(&list);
    return ok;
}

bool ey_detokenize(const ey_engine *engine, const int *ids, size_t n_ids, char **text, size_t *n,
                   ey_err *e)
{
    *text = NULL;
    *n = 0;
    struct detok detok = detok_start(engine->devices.tok);
    struct buf out = buf_with_max((size_t)EY_MAX_CONTEXT * 64);
    bool ok = buf_add(&out, "", 0);
    for (size_t i = 0; ok && i < n_ids; i++) {
        if (ids[i] < 0 || ids[i] >= engine->devices.model.text.vocab_size) {
            buf_free(&out);
            return ey_fail(e, EY_BAD_REQUEST, "token id %d is not in the vocabulary of %d", ids[i],
                           engine->devices.model.text.vocab_size);
        }
        ok = detok_push(&detok, ids[i], &out);
    }
    ok = ok && detok_finish(&detok, &out);
    if (ok) {
        *text = out.data;
        *n = out.size;
    } else
        buf_free(&out);
    return ok || ey_fail_memory(e, "the text of tokens", n_ids);
}

/* Returns a token's bytes as UTF-8, with U+FFFD for incomplete characters. */
static char *printable_token(const struct tokenizer *tok, int id)
{
    size_t n;
    const char *bytes = tokenizer_bytes(tok, id, &n);
    struct buf text = buf_with_max(EY_MAX_TOKEN_BYTES * 4);
    buf_add(&text, "", 0);
    for (size_t i = 0; i < n;) {
        int length = utf8_decode(bytes + i, n - i, NULL);
        if (length > 0)
            buf_add(&text, bytes + i, (size_t)length);
        else
            buf_add_text(&text, "\xef\xbf\xbd");
        i += length > 0 ? (size_t)length : utf8_bad_length(bytes + i, n - i);
    }
    return text.data;
}

const char *ey_token_text(const ey_engine *const_engine, int id)
{
    ey_engine *engine = (ey_engine *)const_engine; /* a cache, filled on demand */
    if (id < 0 || id >= engine->devices.model.text.vocab_size) return "";
    pthread_mutex_lock(&engine->caches.token_lock);
    if (!engine->caches.token_text)
        engine->caches.token_text = calloc((size_t)engine->devices.model.text.vocab_size,
                                           sizeof(char *));
    if (engine->caches.token_text && !engine->caches.token_text[id])
        engine->caches.token_text[id] = printable_token(engine->devices.tok, id);
    const char *text = engine->caches.token_text ? engine->caches.token_text[id] : NULL;
    pthread_mutex_unlock(&engine->caches.token_lock);
    return text ? text : "";
}

const struct vocabulary *engine_vocabulary(ey_engine *engine, ey_err *e)
{
    pthread_mutex_lock(&engine->caches.token_lock);
    if (!engine->caches.vocabulary)
        vocabulary_open(&engine->caches.vocabulary, engine->devices.tok,
                        engine->devices.model.text.vocab_size, VOCABULARY_CACHED_MASKS, e);
    const struct vocabulary *v = engine->caches.vocabulary;
    pthread_mutex_unlock(&engine->caches.token_lock);
    return v;
}
