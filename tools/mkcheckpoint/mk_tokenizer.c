/* SPDX-License-Identifier: Apache-2.0 */
/* Writes tokenizer.json for Hugging Face tokenizers: NFC, the official Split pattern, byte-level
 * BPE (spec 6.1). */
#include "mk_tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text/json_writer.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "mk_sentencepiece.h"
#include "mk_vocab.h"

#define REAL_TOKENIZER "../shared/data/tokenizers/qwen3-vl/tokenizer.json"

static const char *const added[MK_ADDED_TOKENS] = {
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
};
enum { SPECIAL_TOKENS = 14 }; /* the first 14 are special; the others are only matched as a whole */

static const char pipeline[] =
    "  \"normalizer\": {\"type\": \"NFC\"},\n"
    "  \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [\n"
    "    {\"type\": \"Split\", \"pattern\": {\"Regex\": "
    "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|"
    "\\\\p{N}| "
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}, "
    "\"behavior\": \"Isolated\", \"invert\": false},\n"
    "    {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": false, "
    "\"use_regex\": false}]},\n"
    "  \"post_processor\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
    "\"trim_offsets\": false, \"use_regex\": false},\n"
    "  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": "
    "false, \"use_regex\": false},\n";

static const char *truth(bool b)
{
    return b ? "true" : "false";
}

/* ---- a made-up tokenizer ---- */

/* Adds a token as a JSON string of the letters that stand for its bytes. */
static void add_mapped(struct buf *b, const struct mk_token *t)
{
    char text[MK_TOKEN_BYTES * 2];
    size_t n = 0;
    for (int i = 0; i < t->n; i++)
        n += (size_t)utf8_encode(letter_of_byte((uint8_t)t->bytes[i]), text + n);
    json_dump_string(b, text, n);
}

static void add_model(struct buf *b, const struct mk_vocab *v)
{
    buf_add_text(b, "  \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
                    "\"continuing_subword_prefix\": \"\", "
                    "\"end_of_word_suffix\": \"\", \"fuse_unk\": false, \"byte_fallback\": false, "
                    "\"ignore_merges\": false,\n"
                    "    \"vocab\": {");
    for (int id = 0; id < v->n; id++) {
        buf_add_text(b, id ? ", " : "");
        add_mapped(b, &v->tokens[id]);
        buf_printf(b, ": %d", id);
    }
    buf_add_text(b, "},\n    \"merges\": [");
    for (int id = MK_BYTES; id < v->n; id++) {
        buf_add_text(b, id > MK_BYTES ? ", [" : "[");
        add_mapped(b, &v->tokens[v->tokens[id].left]);
        buf_add_text(b, ", ");
        add_mapped(b, &v->tokens[v->tokens[id].right]);
        buf_add_text(b, "]");
    }
    buf_add_text(b, "]}\n");
}

static void add_added_tokens(struct buf *b, const struct kind *k)
{
    buf_add_text(b, "  \"added_tokens\": [");
    for (int i = 0; i < MK_ADDED_TOKENS; i++)
        buf_printf(b,
                   "%s\n    {\"id\": %d, \"content\": \"%s\", \"single_word\": false, \"lstrip\": "
                   "false, \"rstrip\": false, "
                   "\"normalized\": false, \"special\": %s}",
                   i ? "," : "", k->first_added + i, added[i], truth(i < SPECIAL_TOKENS));
    buf_add_text(b, "],\n");
}

static bool write_made_up(struct mk_output *o, const struct kind *k, ey_err *e)
{
    struct mk_vocab v;
    if (!vocab_make(&v, k->first_added, k->task == MK_RERANKS, e)) return false;
    struct buf b = buf_with_max(EY_MAX_JSON_BYTES);
    buf_add_text(&b, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n");
    add_added_tokens(&b, k);
    buf_add_text(&b, pipeline);
    add_model(&b, &v);
    buf_add_text(&b, "}\n");
    bool ok = b.failed ? ey_fail_memory(e, "tokenizer.json", 0)
                       : output_text(o, "tokenizer.json", b.data, b.size, e);
    buf_free(&b);
    vocab_free(&v);
    return ok;
}

/* ---- a given tokenizer ---- */

static const json_object *find_added(const json_object *tokenizer, const char *content)
{
    json_object *list = json_member_of_type(tokenizer, "added_tokens", json_type_array);
    size_t n = list ? json_object_array_length(list) : 0;
    for (size_t i = 0; i < n; i++) {
        json_object *token = json_object_array_get_idx(list, i);
        json_object *text = json_member_of_type(token, "content", json_type_string);
        if (text && strcmp(json_object_get_string(text), content) == 0) return token;
    }
    return NULL;
}

/* Fails unless the file has the ids that config.json names. */
static bool check_ids(const json_object *tokenizer, const struct kind *k, const char *file,
                      ey_err *e)
{
    if (!json_member_of_type(json_member(tokenizer, "model"), "vocab", json_type_object))
        return ey_fail(e, EY_BAD_REQUEST, "%s: not a tokenizer.json: it has no model.vocab", file);
    if (kind_sentencepiece(k)) return sentencepiece_check(tokenizer, k, file, e);
    for (int i = 0; i < SPECIAL_TOKENS; i++) {
        int64_t id = -1;
        const json_object *token = find_added(tokenizer, added[i]);
        if (!token)
            return ey_fail(e, EY_BAD_REQUEST, "%s: it lacks the added token %s", file, added[i]);
        if (!json_int(token, "id", 0, EY_MAX_VOCAB_SIZE, &id, file, e)) return false;
        if (id != k->first_added + i)
            return ey_fail(e, EY_BAD_REQUEST, "%s: %s has id %d; the kind %s needs %d", file,
                           added[i], (int)id, k->name, k->first_added + i);
    }
    return true;
}

static bool copy_tokenizer(struct mk_output *o, const struct kind *k, const char *file, ey_err *e)
{
    char *text;
    size_t n;
    if (!file_read(&text, &n, file, EY_MAX_JSON_BYTES, e)) return false;
    json_object *parsed = json_parse(text, n, file, EY_BAD_REQUEST, e);
    bool ok = parsed && check_ids(parsed, k, file, e) &&
              output_text(o, "tokenizer.json", text, n, e);
    json_object_put(parsed);
    free(text);
    return ok;
}

/* ---- tokenizer_config.json ---- */

static bool write_config(struct mk_output *o, const struct kind *k, ey_err *e)
{
    struct buf b = buf_with_max(EY_MAX_JSON_BYTES);
    buf_add_text(&b, "{\n  \"add_bos_token\": false,\n  \"add_prefix_space\": false,\n  "
                     "\"added_tokens_decoder\": {");
    for (int i = 0; i < MK_ADDED_TOKENS; i++)
        buf_printf(&b,
                   "%s\n    \"%d\": {\"content\": \"%s\", \"lstrip\": false, \"normalized\": "
                   "false, \"rstrip\": false, "
                   "\"single_word\": false, \"special\": %s}",
                   i ? "," : "", k->first_added + i, added[i], truth(i < SPECIAL_TOKENS));
    buf_add_text(&b, "\n  },\n  \"bos_token\": null,\n  \"clean_up_tokenization_spaces\": false,\n "
                     " \"eos_token\": \"<|im_end|>\",\n"
                     "  \"errors\": \"replace\",\n  \"model_max_length\": 262144,\n  "
                     "\"pad_token\": \"<|endoftext|>\",\n"
                     "  \"split_special_tokens\": false,\n  \"tokenizer_class\": "
                     "\"Qwen2Tokenizer\",\n  \"unk_token\": null\n}\n");
    bool ok = b.failed ? ey_fail_memory(e, "tokenizer_config.json", 0)
                       : output_text(o, "tokenizer_config.json", b.data, b.size, e);
    buf_free(&b);
    return ok;
}

bool tokenizer_write(struct mk_output *o, const struct kind *k, const char *file, ey_err *e)
{
    bool sentencepiece = kind_sentencepiece(k);
    if (!file && sentencepiece) file = sentencepiece_real(k);
    if (!file && k->vocabulary == MK_REAL_VOCABULARY && path_is_file(REAL_TOKENIZER))
        file = REAL_TOKENIZER;
    bool ok = file            ? copy_tokenizer(o, k, file, e)
              : sentencepiece ? sentencepiece_write(o, k, e)
                              : write_made_up(o, k, e);
    if (!ok) return false;
    return sentencepiece ? sentencepiece_write_config(o, k, e) : write_config(o, k, e);
}
