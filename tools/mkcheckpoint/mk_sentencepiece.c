/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a tokenizer with byte fallback and without a pre-tokenizer. */
#include "mk_sentencepiece.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/text/json_writer.h"
#include "mk_vocab.h"

#define SHARED "../shared/data/tokenizers/"

enum {
    FIRST_BYTE = 3,
    FIRST_ASCII = FIRST_BYTE + 256,
    FIRST_MERGE = FIRST_ASCII + 0x7f - 0x20,
    PHI3_TOKENS = 11
};

static const char *const first[] = {"<unk>", "<s>", "</s>"};
static const char *const phi3[PHI3_TOKENS] = {
    "<|endoftext|>",    "<|assistant|>",    "<|placeholder1|>", "<|placeholder2|>",
    "<|placeholder3|>", "<|placeholder4|>", "<|system|>",       "<|end|>",
    "<|placeholder5|>", "<|placeholder6|>", "<|user|>",
};

static int n_added(const struct kind *k)
{
    return 3 + (k->architecture == MK_PHI3 ? PHI3_TOKENS : 0);
}

static const char *added_content(int i)
{
    return i < 3 ? first[i] : phi3[i - 3];
}

static int added_id(const struct kind *k, int i)
{
    return i < 3 ? i : k->first_added + i - 3;
}

/* Returns whether an added token absorbs the white space behind it: Phi-3's do, except
 * <|endoftext|>. */
static bool swallows_blanks(const struct kind *k, int i)
{
    return k->architecture == MK_PHI3 && (i == 2 || i > 3);
}

static const char *truth(bool b)
{
    return b ? "true" : "false";
}

const char *sentencepiece_real(const struct kind *k)
{
    const char *file = k->architecture == MK_PHI3 ? SHARED "phi-3/tokenizer.json"
                                                  : SHARED "llama-2/tokenizer.json";
    return k->vocabulary >= 32000 && path_is_file(file) ? file : NULL;
}

bool sentencepiece_check(const json_object *tokenizer, const struct kind *k, const char *file,
                         ey_err *e)
{
    json_object *list = json_member_of_type(tokenizer, "added_tokens", json_type_array);
    size_t n = list ? json_object_array_length(list) : 0;
    for (int i = 0; i < n_added(k); i++) {
        bool found = false;
        for (size_t j = 0; j < n && !found; j++) {
            const json_object *token = json_object_array_get_idx(list, j);
            json_object *text = json_member_of_type(token, "content", json_type_string),
                        *id = json_member(token, "id");
            found = text && !strcmp(json_object_get_string(text), added_content(i)) &&
                    json_object_get_int64(id) == added_id(k, i);
        }
        if (!found)
            return ey_fail(e, EY_BAD_REQUEST, "%s: the kind %s needs the added token %s with id %d",
                           file, k->name, added_content(i), added_id(k, i));
    }
    return true;
}

/* ---- a made-up tokenizer ---- */

static void add_piece(struct buf *b, const char *bytes, size_t n)
{
    char text[3 * MK_TOKEN_BYTES];
    size_t length = 0;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == ' ') {
            memcpy(text + length, "\xe2\x96\x81", 3);
            length += 3;
        } else
            text[length++] = bytes[i];
    }
    json_dump_string(b, text, length);
}

static bool is_printable(const struct mk_token *t)
{
    for (int i = 0; i < t->n; i++)
        if (t->bytes[i] < 0x20 || t->bytes[i] > 0x7e) return false;
    return true;
}

/* Adds `wanted` merged tokens that are printable. The two tokens of each merge come earlier and are
 * printable, too. */
static void add_model(struct buf *b, const struct mk_vocab *v, int wanted)
{
    buf_add_text(b, "  \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": \"<unk>\", "
                    "\"continuing_subword_prefix\": null, "
                    "\"end_of_word_suffix\": null, \"fuse_unk\": true, \"byte_fallback\": true, "
                    "\"ignore_merges\": false,\n    \"vocab\": {");
    for (int i = 0; i < 3; i++)
        buf_printf(b, "%s\"%s\": %d", i ? ", " : "", first[i], i);
    for (int i = 0; i < 256; i++)
        buf_printf(b, ", \"<0x%02X>\": %d", (unsigned)i, FIRST_BYTE + i);
    for (int c = 0x20; c < 0x7f; c++) {
        buf_add_text(b, ", ");
        add_piece(b, (char[]){(char)c}, 1);
        buf_printf(b, ": %d", FIRST_ASCII + c - 0x20);
    }
    for (int id = MK_BYTES, n = 0; id < v->n && n < wanted; id++) {
        if (!is_printable(&v->tokens[id])) continue;
        buf_add_text(b, ", ");
        add_piece(b, v->tokens[id].bytes, v->tokens[id].n);
        buf_printf(b, ": %d", FIRST_MERGE + n++);
    }
    buf_add_text(b, "},\n    \"merges\": [");
    for (int id = MK_BYTES, n = 0; id < v->n && n < wanted; id++) {
        const struct mk_token *t = &v->tokens[id];
        if (!is_printable(t)) continue;
        buf_add_text(b, n++ ? ", [" : "[");
        add_piece(b, v->tokens[t->left].bytes, v->tokens[t->left].n);
        buf_add_text(b, ", ");
        add_piece(b, v->tokens[t->right].bytes, v->tokens[t->right].n);
        buf_add_text(b, "]");
    }
    buf_add_text(b, "]}\n");
}

static const char pipeline[] =
    "  \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", "
    "\"prepend\": \"\xe2\x96\x81\"}, "
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"\xe2\x96\x81\"}]},\n"
    "  \"pre_tokenizer\": null,\n"
    "  \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": "
    "{\"id\": \"<s>\", \"type_id\": 0}}, "
    "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": [{\"Sequence\": {\"id\": \"A\", "
    "\"type_id\": 0}}, "
    "{\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}], \"special_tokens\": {\"<s>\": {\"id\": "
    "\"<s>\", \"ids\": [1], \"tokens\": [\"<s>\"]}}},\n"
    "  \"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": "
    "{\"String\": \"\xe2\x96\x81\"}, "
    "\"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}, "
    "{\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}]},\n";

bool sentencepiece_write(struct mk_output *o, const struct kind *k, ey_err *e)
{
    enum {
        UNPRINTABLE = 256
    }; /* at least as many as the vocabulary has tokens that are not printable */
    int wanted = k->first_added - FIRST_MERGE;
    struct mk_vocab v;
    if (!vocab_make(&v, MK_BYTES + wanted + UNPRINTABLE, false, e)) return false;
    struct buf b = buf_with_max(EY_MAX_JSON_BYTES);
    buf_add_text(&b, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  "
                     "\"added_tokens\": [");
    for (int i = 0; i < n_added(k); i++)
        buf_printf(&b,
                   "%s\n    {\"id\": %d, \"content\": \"%s\", \"single_word\": false, \"lstrip\": "
                   "false, \"rstrip\": %s, "
                   "\"normalized\": false, \"special\": true}",
                   i ? "," : "", added_id(k, i), added_content(i), truth(swallows_blanks(k, i)));
    buf_add_text(&b, "],\n");
    buf_add_text(&b, pipeline);
    add_model(&b, &v, wanted);
    buf_add_text(&b, "}\n");
    bool ok = b.failed ? ey_fail_memory(e, "tokenizer.json", 0)
                       : output_text(o, "tokenizer.json", b.data, b.size, e);
    buf_free(&b);
    vocab_free(&v);
    return ok;
}

bool sentencepiece_write_config(struct mk_output *o, const struct kind *k, ey_err *e)
{
    struct buf b = buf_with_max(EY_MAX_JSON_BYTES);
    buf_add_text(&b, "{\n  \"add_bos_token\": false,\n  \"add_eos_token\": false,\n  "
                     "\"added_tokens_decoder\": {");
    for (int i = 0; i < n_added(k); i++)
        buf_printf(&b,
                   "%s\n    \"%d\": {\"content\": \"%s\", \"lstrip\": false, \"normalized\": "
                   "false, \"rstrip\": %s, "
                   "\"single_word\": false, \"special\": true}",
                   i ? "," : "", added_id(k, i), added_content(i), truth(swallows_blanks(k, i)));
    buf_printf(&b,
               "\n  },\n  \"bos_token\": \"<s>\",\n  \"clean_up_tokenization_spaces\": false,\n  "
               "\"eos_token\": \"%s\",\n  \"legacy\": false,\n"
               "  \"model_max_length\": 4096,\n  \"tokenizer_class\": \"LlamaTokenizer\",\n  "
               "\"unk_token\": \"<unk>\"\n}\n",
               k->architecture == MK_PHI3 ? phi3[0] : first[2]);
    bool ok = b.failed ? ey_fail_memory(e, "tokenizer_config.json", 0)
                       : output_text(o, "tokenizer_config.json", b.data, b.size, e);
    buf_free(&b);
    return ok;
}
