/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline of Llama-2 and Phi-3 (spec 6.2): no pre-tokenizer, U+2581 for spaces, byte tokens
 * for characters without a token. */
#include <string.h>

#include "tokenizer/tok_load.h"

#define METASPACE "\xe2\x96\x81" /* U+2581 */

static bool replaces(const json_object *part, const char *what, const char *by)
{
    const json_object *pattern = json_member(part, "pattern");
    return pattern && tok_is_text(json_member(pattern, "String"), what) &&
           tok_is_text(json_member(part, "content"), by);
}

bool tok_is_sentencepiece(const json_object *root)
{
    static const char *const types[] = {"Prepend", "Replace"};
    struct tok_parts parts = tok_parts_of(root, &tok_normalizer);
    return tok_parts_are(&parts, types, 2) &&
           tok_is_text(json_member(parts.at[0], "prepend"), METASPACE) &&
           replaces(parts.at[1], " ", METASPACE);
}

/* Whether this part strips one leading space, the normalizer's dummy space. */
static bool is_strip(const json_object *part, const struct loading *l)
{
    int64_t start, stop;
    return part && tok_is_text(json_member(part, "content"), " ") &&
           json_int(part, "start", 1, 1, &start, l->what, l->e) &&
           json_int(part, "stop", 0, 0, &stop, l->what, l->e);
}

static bool check_sentencepiece_decoder(const struct loading *l)
{
    static const char *const types[] = {"Replace", "ByteFallback", "Fuse", "Strip"};
    struct tok_parts parts = tok_parts_of(l->root, &tok_decoder);
    return (tok_parts_are(&parts, types, 4) && replaces(parts.at[0], METASPACE, " ") &&
            is_strip(parts.at[3], l)) ||
           tok_unsupported_step(
               l, &tok_decoder,
               "Sequence of Replace of \xe2\x96\x81, ByteFallback, Fuse, Strip of one space");
}

bool tok_load_sentencepiece(struct loading *l)
{
    struct tok_parts post = tok_parts_of(l->root, &tok_post_processor);
    l->tok->pipeline = TOK_SENTENCEPIECE;
    if (tok_parts_of(l->root, &tok_pre_tokenizer).n)
        return tok_unsupported_step(l, &tok_pre_tokenizer,
                                    "null if the normalizer is Prepend and Replace");
    /* Templates are accepted, but only their BOS token is used: chat formats write all other
     * tokens.
     */
    for (size_t i = 0; i < post.n; i++)
        if (i >= MAX_PARTS || strcmp(tok_type_of(post.at[i]), "TemplateProcessing"))
            return tok_unsupported_step(l, &tok_post_processor, "null, TemplateProcessing");
    return check_sentencepiece_decoder(l);
}
