/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline of Llama-2 and Phi-3 (spec 6.2): no pre-tokenizer, U+2581 for spaces, byte tokens
 * for characters without a token. */
#include <string.h>

#include "tokenizer/tok_load.h"

#define METASPACE "\xe2\x96\x81" /* U+2581 */

static bool replaces(const json_object *part, const char *what, const char *by)
{
    const json_object *pattern = part ? json_member(part, "pattern") : NULL;
    return pattern && tok_is_text(json_member(pattern, "String"), what) &&
           tok_is_text(json_member(part, "content"), by);
}

bool tok_is_sentencepiece(const json_object *root)
{
    const json_object *normalizer = json_member(root, "normalizer");
    if (strcmp(tok_type_of(normalizer), "Sequence")) return false;
    const json_object *list = json_member_of_type(normalizer, "normalizers", json_type_array);
    const json_object *prepend = tok_part(normalizer, "normalizers", 0, "Prepend");
    return prepend && json_object_array_length(list) == 2 &&
           tok_is_text(json_member(prepend, "prepend"), METASPACE) &&
           replaces(tok_part(normalizer, "normalizers", 1, "Replace"), " ", METASPACE);
}

/* Removes one space at the beginning: the one that the normalizer added. */
static bool is_strip(const json_object *part, const struct loading *l)
{
    int64_t start, stop;
    return part && tok_is_text(json_member(part, "content"), " ") &&
           json_int(part, "start", 1, 1, &start, l->what, l->e) &&
           json_int(part, "stop", 0, 0, &stop, l->what, l->e);
}

static bool check_sentencepiece_decoder(const struct loading *l)
{
    static const char *const supported =
        "Sequence of Replace of \xe2\x96\x81, ByteFallback, Fuse, Strip of one space";
    const json_object *decoder = json_member(l->root, "decoder");
    if (strcmp(tok_type_of(decoder), "Sequence"))
        return tok_unsupported(l, "decoder", tok_type_of(decoder), supported);
    const json_object *list = json_member_of_type(decoder, "decoders", json_type_array);
    bool known = list && json_object_array_length(list) == 4 &&
                 replaces(tok_part(decoder, "decoders", 0, "Replace"), METASPACE, " ") &&
                 tok_part(decoder, "decoders", 1, "ByteFallback") &&
                 tok_part(decoder, "decoders", 2, "Fuse") &&
                 is_strip(tok_part(decoder, "decoders", 3, "Strip"), l);
    return known || tok_unsupported_sequence(l, "decoder", list, supported);
}

bool tok_load_sentencepiece(struct loading *l)
{
    const json_object *pre = json_member(l->root, "pre_tokenizer"),
                      *post = json_member(l->root, "post_processor");
    l->tok->pipeline = TOK_SENTENCEPIECE;
    if (pre)
        return tok_unsupported(l, "pre_tokenizer", tok_type_of(pre),
                               "null, with such a normalizer");
    /* A template's tokens are only for texts encoded with special tokens; chat formats add their
     * own. */
    if (post && strcmp(tok_type_of(post), "TemplateProcessing"))
        return tok_unsupported(l, "post_processor", tok_type_of(post), "null, TemplateProcessing");
    return check_sentencepiece_decoder(l);
}
