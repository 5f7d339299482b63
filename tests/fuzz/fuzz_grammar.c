/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the input as a grammar and walks it at random. */
#include "fuzz/fuzz_grammar.h"

#include <stdlib.h>

#include "constrain/grammar_generator.h"
#include "constrain/random_walks.h"

enum { WALKS = 3, PATIENCE = 20 };

static struct tokenizer *tok;
static struct vocabulary *vocabulary;

static void walk_grammar(struct grammar *g, uint64_t random)
{
    struct matcher *c = NULL;
    struct buf text = buf_with_max(1 << 20);
    if (!matcher_open(&c, g, vocabulary, NULL)) abort();
    for (int i = 0; i < WALKS; i++)
        if (random_walk(c, tok, &random, PATIENCE, &text) > WALK_LONG) abort();
    text.size = text.size ? random_below(&random, (uint32_t)text.size) : 0;
    matcher_reset(c);
    if (!matcher_accept_text(c, text.data ? text.data : "", text.size) ||
        !mask_is_exact(c, tok, &text))
        abort();
    buf_free(&text);
    matcher_close(&c);
}

void fuzz_grammar(bool (*compile)(struct grammar **out, const char *text, size_t n, ey_err *e),
                  const uint8_t *data, size_t size)
{
    struct grammar *g = NULL;
    ey_err e;
    if (!tok && (!tokenizer_open(&tok, "models/demo", &e) ||
                 !vocabulary_open(&vocabulary, tok, tokenizer_size(tok), 16, &e)))
        abort();
    if (compile(&g, (const char *)data, size, &e))
        walk_grammar(g, size);
    else if (e.code != EY_BAD_REQUEST)
        abort();
    grammar_release(&g);
}
