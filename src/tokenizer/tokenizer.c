/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of ids, lookups of single tokens, and freeing a tokenizer. */
#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_internal.h"

void ids_free(struct ids *ids)
{
    free(ids->id);
    *ids = (struct ids){0};
}

bool ids_push(struct ids *ids, int32_t id)
{
    if (ids->n == ids->capacity) {
        size_t capacity = ids->capacity ? ids->capacity * 2 : 64;
        int32_t *grown = realloc(ids->id, capacity * sizeof(*grown));
        if (!grown) return false;
        ids->id = grown;
        ids->capacity = capacity;
    }
    ids->id[ids->n++] = id;
    return true;
}

int32_t tokenizer_size(const struct tokenizer *tok)
{
    return (int32_t)tok->vocab.size;
}

int32_t tokenizer_added_id(const struct tokenizer *tok, const char *content)
{
    size_t n = strlen(content);
    for (size_t i = 0; i < tok->added.n; i++) {
        int32_t id = tok->added.tokens[i].id;
        if (vocab_token_is(&tok->vocab, id, content, n)) return id;
    }
    return -1;
}

bool tokenizer_is_special(const struct tokenizer *tok, int32_t id)
{
    const struct token *token = vocab_token(&tok->vocab, id);
    return token && token->special;
}

int32_t tokenizer_bos_id(const struct tokenizer *tok)
{
    return tok->bos_id;
}

size_t tokenizer_rstrip_length(const struct tokenizer *tok, int32_t id, const char *text, size_t n)
{
    for (size_t i = 0; i < tok->added.n; i++)
        if (tok->added.tokens[i].id == id)
            return tok->added.tokens[i].right_strip ? added_white_space(text, n) : 0;
    return 0;
}

const char *tokenizer_bytes(const struct tokenizer *tok, int32_t id, size_t *n)
{
    const struct token *token = vocab_token(&tok->vocab, id);
    *n = token ? token->n : 0;
    return token ? tok->vocab.bytes + token->at : "";
}

void tokenizer_close(struct tokenizer *tok)
{
    if (!tok) return;
    added_set_finish(&tok->added);
    pretok_finish(&tok->pretok);
    pair_map_finish(&tok->merges);
    vocab_finish(&tok->vocab);
    free(tok);
}
