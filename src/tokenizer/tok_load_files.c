/* SPDX-License-Identifier: Apache-2.0 */
/* Reads tokenizers that were saved without tokenizer.json: vocab.json, merges.txt, and added tokens
 * in added_tokens.json or tokenizer_config.json. Converts them to the tokenizer.json that
 * transformers 5.24 makes of them, so that its checks apply. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "tokenizer/tok_load.h"

#define VOCAB_FILE "vocab.json"
#define MERGES_FILE "merges.txt"
#define ADDED_FILE "added_tokens.json"
#define CONFIG_FILE "tokenizer_config.json"
#define SPECIAL_FILE "special_tokens_map.json"

/* These limit the time, because each added token is compared with each special token. */
enum { MAX_ADDED_TOKENS = 1 << 16, MAX_SPECIAL_TOKENS = 1 << 10 };

/* The pipelines of the two tokenizer classes that are saved in such files. */
static const char qwen2_pipeline[] =
    "{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":"
    "[{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,\"pattern\":{\"Regex\":"
    "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}|"
    " ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}},"
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]},"
    "\"decoder\":{\"type\":\"ByteLevel\"}}";
static const char gpt2_pipeline[] =
    "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},"
    "\"decoder\":{\"type\":\"ByteLevel\"}}";

/* The end token of both classes if the files name none. */
static const char *const default_special = "<|endoftext|>";

struct tok_files {
    const char *directory;
    json_object *vocab, *added, *config, *special; /* all but vocab: NULL if the file is absent */
    json_object *list;                             /* added_tokens */
    ey_err *e;
};

static bool has_file_in(const char *directory, const char *name)
{
    char path[EY_MAX_PATH];
    return path_join(path, directory, name, NULL) && path_is_file(path);
}

bool tok_has_vocab_and_merges(const char *directory)
{
    return has_file_in(directory, VOCAB_FILE) && has_file_in(directory, MERGES_FILE);
}

/* Reads a JSON object. Sets *out to NULL if the file is absent. */
static bool read_object_file(const struct tok_files *f, const char *name, json_object **out)
{
    char path[EY_MAX_PATH];
    *out = NULL;
    if (!path_join(path, f->directory, name, f->e)) return false;
    if (!path_is_file(path)) return true;
    *out = json_parse_file(path, EY_BAD_MODEL, f->e);
    return *out && (json_object_is_type(*out, json_type_object) ||
                    ey_fail(f->e, EY_BAD_MODEL, "%s: not a JSON object", path));
}

static bool fail_files_memory(const struct tok_files *f)
{
    return ey_fail_memory(f->e, "a tokenizer's files", 0);
}

/* Takes ownership of `value`; NULL means out of memory. */
static bool put_member(const struct tok_files *f, json_object *object, const char *key,
                       json_object *value)
{
    if (value && json_object_object_add(object, key, value) == 0) return true;
    json_object_put(value);
    return fail_files_memory(f);
}

static bool append(const struct tok_files *f, json_object *list, json_object *value)
{
    if (value && json_object_array_add(list, value) == 0) return true;
    json_object_put(value);
    return fail_files_memory(f);
}

/* ---- merges.txt ---- */

/* One merge per line; the first line may be "#version". */
static bool append_merges(const struct tok_files *f, json_object *merges, const char *text,
                          size_t n)
{
    static const char version[] = "#version:";
    const char *at = text, *end = text + n;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at)), *next;
        next = line_end ? line_end + 1 : end;
        size_t length = (size_t)((line_end ? line_end : end) - at);
        if (length && at[length - 1] == '\r') length--;
        bool is_version = at == text && length >= sizeof(version) - 1 &&
                          memcmp(at, version, sizeof(version) - 1) == 0;
        if (length && !is_version &&
            !append(f, merges, json_object_new_string_len(at, (int)length)))
            return false;
        at = next;
    }
    return true;
}

static bool read_merges(const struct tok_files *f, json_object *merges)
{
    char path[EY_MAX_PATH], *text = NULL;
    size_t n;
    bool ok = path_join(path, f->directory, MERGES_FILE, f->e) &&
              file_read_regular(&text, &n, path, EY_MAX_JSON_BYTES, f->e) &&
              file_check_not_lfs_pointer(text, n, path, f->e);
    if (ok && (!utf8_valid(text, n) || memchr(text, 0, n)))
        ok = ey_fail(f->e, EY_BAD_MODEL, "%s: it is not UTF-8 text", path);
    ok = ok && append_merges(f, merges, text, n);
    free(text);
    return ok;
}

/* ---- added tokens ---- */

/* "<|im_end|>", or {"content": "<|im_end|>", …} as older releases write it. */
static const char *token_content(json_object *value)
{
    if (json_object_is_type(value, json_type_object)) value = json_member(value, "content");
    return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
}

/* Called for each token that a file names as special, until it returns false. */
typedef bool special_fn(struct tok_files *f, const char *content, void *user);

static bool each_special_of(struct tok_files *f, const json_object *file, special_fn *fn,
                            void *user)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"},
                             *const lists[] = {"additional_special_tokens", "extra_special_tokens"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *content = token_content(json_member(file, names[i]));
        if (content && content[0] && !fn(f, content, user)) return false;
    }
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        json_object *list = json_member_of_type(file, lists[i], json_type_array);
        for (size_t k = 0; list && k < json_object_array_length(list); k++) {
            const char *content = token_content(json_object_array_get_idx(list, k));
            if (content && content[0] && !fn(f, content, user)) return false;
        }
    }
    return true;
}

static bool each_special(struct tok_files *f, special_fn *fn, void *user)
{
    return each_special_of(f, f->config, fn, user) && each_special_of(f, f->special, fn, user) &&
           fn(f, default_special, user);
}

static bool is_other_token(struct tok_files *f, const char *content, void *user)
{
    (void)f;
    return strcmp(content, user) != 0;
}

/* Appends {"id", "content", "special", "normalized"} with the flags of tokenizer_config.json, or
 * transformers' defaults if `flags` is NULL. */
static bool append_added(struct tok_files *f, const char *content, json_object *id,
                         const json_object *flags, bool special)
{
    static const char *const names[] = {"special", "normalized", "lstrip", "rstrip", "single_word"};
    json_object *entry = json_object_new_object();
    if (!append(f, f->list, entry)) return false;
    if (!put_member(f, entry, "content", json_object_new_string(content)) ||
        !put_member(f, entry, "id", json_object_get(id)))
        return false;
    if (!flags)
        return put_member(f, entry, "special", json_object_new_boolean(special)) &&
               put_member(f, entry, "normalized", json_object_new_boolean(!special));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        json_object *flag = json_member(flags, names[i]);
        if (flag && !put_member(f, entry, names[i], json_object_get(flag))) return false;
    }
    return true;
}

/* {"614": {"content": "<|endoftext|>", "special": true, …}, …} */
static bool append_decoder_tokens(struct tok_files *f, json_object *decoder)
{
    json_object_object_foreach(decoder, key, entry)
    {
        char *rest;
        long long id = strtoll(key, &rest, 10);
        const char *content = token_content(entry);
        if (*rest || !key[0] || !content)
            return ey_fail(f->e, EY_BAD_MODEL,
                           "%s/" CONFIG_FILE ": added_tokens_decoder: \"%.40s\" is not the id of a "
                           "token with content",
                           f->directory, key);
        json_object *number = json_object_new_int64(id);
        bool ok = append_added(f, content, number, entry, false);
        json_object_put(number);
        if (!ok) return false;
    }
    return true;
}

/* {"<|endoftext|>": 614, …} */
static bool append_file_tokens(struct tok_files *f)
{
    if (!f->added) return true;
    json_object_object_foreach(f->added, content, id)
    {
        char *name = content;
        if (!append_added(f, content, id, NULL, !each_special(f, is_other_token, name)))
            return false;
    }
    return true;
}

/* Appends a special token that is in the vocabulary but not in the list of added tokens. */
static bool append_if_missing(struct tok_files *f, const char *content, void *user)
{
    json_object *id = json_member(f->vocab, content);
    (void)user;
    for (size_t i = 0; id && i < json_object_array_length(f->list); i++)
        if (tok_is_text(json_member(json_object_array_get_idx(f->list, i), "content"), content))
            return true;
    return !id || append_added(f, content, id, NULL, true);
}

/* The list in tokenizer_config.json replaces added_tokens.json, as in transformers. */
static bool append_added_tokens(struct tok_files *f)
{
    json_object *decoder = json_member_of_type(f->config, "added_tokens_decoder", json_type_object);
    return (decoder ? append_decoder_tokens(f, decoder) : append_file_tokens(f)) &&
           each_special(f, append_if_missing, NULL);
}

static bool check_number(const struct tok_files *f, const char *file, size_t n, size_t max)
{
    return n <= max ||
           ey_fail(f->e, EY_BAD_MODEL, "%s/%s: %zu tokens are more than the limit of %zu",
                   f->directory, file, n, max);
}

static size_t object_length(const json_object *object, const char *key)
{
    json_object *value = key ? json_member_of_type(object, key, json_type_object)
                             : (json_object *)(uintptr_t)object;
    return value ? (size_t)json_object_object_length(value) : 0;
}

static size_t specials_listed(const json_object *file)
{
    json_object *list = json_member_of_type(file, "additional_special_tokens", json_type_array),
                *more = json_member_of_type(file, "extra_special_tokens", json_type_array);
    return (list ? json_object_array_length(list) : 0) +
           (more ? json_object_array_length(more) : 0);
}

static bool check_numbers(const struct tok_files *f)
{
    return check_number(f, ADDED_FILE, object_length(f->added, NULL), MAX_ADDED_TOKENS) &&
           check_number(f, CONFIG_FILE, object_length(f->config, "added_tokens_decoder"),
                        MAX_ADDED_TOKENS) &&
           check_number(f, CONFIG_FILE, specials_listed(f->config), MAX_SPECIAL_TOKENS) &&
           check_number(f, SPECIAL_FILE, specials_listed(f->special), MAX_SPECIAL_TOKENS);
}

/* ---- tokenizer.json ---- */

/* Returns the pipeline of the tokenizer's class, or NULL if the class is not supported. */
static const char *pipeline_of(const json_object *config)
{
    json_object *name = json_member_of_type(config, "tokenizer_class", json_type_string);
    const char *text = name ? json_object_get_string(name) : "Qwen2Tokenizer";
    if (!strcmp(text, "Qwen2Tokenizer") || !strcmp(text, "Qwen2TokenizerFast"))
        return qwen2_pipeline;
    return !strcmp(text, "GPT2Tokenizer") || !strcmp(text, "GPT2TokenizerFast") ? gpt2_pipeline
                                                                                : NULL;
}

static bool fill_root(struct tok_files *f, json_object *root)
{
    json_object *model = json_object_new_object(), *merges = json_object_new_array();
    f->list = json_object_new_array();
    /* the root owns all three from here on */
    bool ok = put_member(f, root, "model", model);
    ok = put_member(f, root, "added_tokens", f->list) && ok;
    if (!ok) return json_object_put(merges), false;
    return put_member(f, model, "merges", merges) &&
           put_member(f, model, "type", json_object_new_string("BPE")) &&
           put_member(f, model, "vocab", json_object_get(f->vocab)) && read_merges(f, merges) &&
           append_added_tokens(f);
}

static bool read_tok_files(struct tok_files *f)
{
    return read_object_file(f, VOCAB_FILE, &f->vocab) &&
           read_object_file(f, CONFIG_FILE, &f->config) &&
           read_object_file(f, SPECIAL_FILE, &f->special) &&
           read_object_file(f, ADDED_FILE, &f->added) && check_numbers(f);
}

static json_object *make_root(struct tok_files *f)
{
    const char *pipeline = pipeline_of(f->config);
    if (!pipeline) {
        ey_fail(f->e, EY_BAD_MODEL,
                "%s: there is no tokenizer.json, and the tokenizer_class in " CONFIG_FILE
                ", %.60s, is not supported; save the tokenizer again with transformers",
                f->directory, token_content(json_member(f->config, "tokenizer_class")));
        return NULL;
    }
    json_object *root = json_parse(pipeline, strlen(pipeline), "a tokenizer's pipeline",
                                   EY_INTERNAL, f->e);
    if (!root) return NULL;
    if (fill_root(f, root)) return root;
    json_object_put(root);
    return NULL;
}

json_object *tok_json_of_files(const char *directory, ey_err *e)
{
    struct tok_files f = {.directory = directory, .e = e};
    json_object *root = read_tok_files(&f) ? make_root(&f) : NULL;
    json_object_put(f.vocab);
    json_object_put(f.added);
    json_object_put(f.config);
    json_object_put(f.special);
    return root;
}
