/* SPDX-License-Identifier: Apache-2.0 */
#include "constrain/constrain_fixture.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "constrain/random_walks.h"

static struct tokenizer *tokenizer;
static struct vocabulary *vocabulary;

static void open_fixture(void)
{
    ey_err e;
    if (vocabulary) return;
    if (!tokenizer_open(&tokenizer, "models/demo", &e) ||
        !vocabulary_open(&vocabulary, tokenizer, tokenizer_size(tokenizer), 64, &e))
        fail_msg("%s", e.text);
}

const struct tokenizer *demo_tokenizer(void)
{
    return open_fixture(), tokenizer;
}

const struct vocabulary *demo_vocabulary(void)
{
    return open_fixture(), vocabulary;
}

void close_fixture(void)
{
    vocabulary_close(&vocabulary);
    tokenizer_close(tokenizer);
    tokenizer = NULL;
}

/* Whether the grammar accepts the text byte by byte; *at is where it was refused. */
static bool in_by_bytes(struct matcher *c, const char *text, size_t *at)
{
    size_t n = strlen(text);
    matcher_reset(c);
    for (*at = 0; *at < n; (*at)++)
        if (!matcher_accept_text(c, text + *at, 1)) return false;
    return matcher_may_end(c);
}

/* The same by the tokenizer's tokens, each of which must be in the mask. */
static bool in_by_tokens(struct matcher *c, const char *text, size_t *at)
{
    struct ids ids = {0};
    ey_err e;
    if (!tokenizer_encode(demo_tokenizer(), text, strlen(text), false, &ids, &e))
        fail_msg("%s", e.text);
    matcher_reset(c);
    bool ok = true;
    for (*at = 0; *at < ids.n && ok; *at += ok) {
        ok = mask_has(matcher_mask(c), ids.id[*at]);
        if (matcher_accept_token(c, ids.id[*at]) != ok)
            fail_msg("%s: mask and acceptance differ at token %zu", text, *at);
    }
    ids_free(&ids);
    return ok && matcher_may_end(c);
}

void check_texts(struct grammar *g, const char *name, const char *const *in, const char *const *out)
{
    struct matcher *c = NULL;
    ey_err e;
    size_t at;
    if (!matcher_open(&c, g, demo_vocabulary(), &e)) fail_msg("%s", e.text);
    for (; *in; in++) {
        if (!in_by_bytes(c, *in, &at))
            fail_msg("%s\n  should allow %s\n  but not from byte %zu on", name, *in, at);
        if (!in_by_tokens(c, *in, &at))
            fail_msg("%s\n  should allow %s\n  but not from token %zu on", name, *in, at);
    }
    for (; *out; out++) {
        if (in_by_bytes(c, *out, &at)) fail_msg("%s\n  should not allow %s", name, *out);
        /* a tokenizer replaces invalid UTF-8 */
        if (utf8_valid(*out, strlen(*out)) && in_by_tokens(c, *out, &at))
            fail_msg("%s\n  should not allow %s by tokens", name, *out);
    }
    matcher_close(&c);
}

struct grammar *schema_ok(const char *schema)
{
    struct grammar *g = NULL;
    ey_err e;
    if (!grammar_of_schema(&g, schema, strlen(schema), &e)) fail_msg("%s\n  %s", schema, e.text);
    return g;
}

struct grammar *regex_ok(const char *pattern)
{
    struct grammar *g = NULL;
    ey_err e;
    if (!grammar_of_regex(&g, pattern, strlen(pattern), &e)) fail_msg("%s\n  %s", pattern, e.text);
    return g;
}
