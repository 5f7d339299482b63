/* SPDX-License-Identifier: Apache-2.0 */
/* Shared helpers of the tokenizer's tests. */
#include "tokenizer/tok_fixture.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"

static struct tokenizer *small, *sentencepiece, *qwen, *qwen2_5, *llama, *phi3;

static struct tokenizer *open_or_fail(const char *directory)
{
    ey_err e;
    struct tokenizer *tok = NULL;
    if (!tokenizer_open(&tok, directory, &e)) fail_msg("%s", e.text);
    return tok;
}

const struct tokenizer *small_tokenizer(void)
{
    if (!small) small = open_or_fail(SMALL_DIR);
    return small;
}

const struct tokenizer *sentencepiece_tokenizer(void)
{
    if (!sentencepiece) sentencepiece = open_or_fail(SENTENCEPIECE_DIR);
    return sentencepiece;
}

static const struct tokenizer *real_tokenizer(struct tokenizer **tok, const char *directory)
{
    if (!*tok && path_is_directory(directory)) *tok = open_or_fail(directory);
    if (!*tok) printf("skipped: no %s\n", directory);
    return *tok;
}

const struct tokenizer *qwen_tokenizer(void)
{
    return real_tokenizer(&qwen, QWEN_DIR);
}

static void drop_added_token(json_object *added, const char *content)
{
    for (size_t i = json_object_array_length(added); i-- > 0;) {
        const json_object *token = json_object_array_get_idx(added, i);
        json_object *have = json_member_of_type(token, "content", json_type_string);
        if (!strcmp(json_object_get_string(have), content)) json_object_array_del_idx(added, i, 1);
    }
}

struct tokenizer *open_tokenizer_without(const char *directory, const char *const *contents,
                                         size_t n)
{
    ey_err e;
    char path[256];
    struct tokenizer *tok = NULL;
    snprintf(path, sizeof(path), "%s/tokenizer.json", directory);
    json_object *root = json_parse_file(path, EY_BAD_MODEL, &e);
    if (!root) fail_msg("%s", e.text);
    json_object *added = json_member_of_type(root, "added_tokens", json_type_array);
    for (size_t i = 0; i < n; i++)
        drop_added_token(added, contents[i]);
    if (!tokenizer_open_json(&tok, root, path, &e)) fail_msg("%s", e.text);
    json_object_put(root);
    return tok;
}

const struct tokenizer *qwen2_5_tokenizer(void)
{
    static const char *const lacks[] = {"<tool_response>", "</tool_response>", "<think>",
                                        "</think>"};
    if (!qwen2_5 && qwen_tokenizer()) qwen2_5 = open_tokenizer_without(QWEN_DIR, lacks, 4);
    return qwen2_5;
}

const struct tokenizer *llama_tokenizer(void)
{
    return real_tokenizer(&llama, LLAMA_DIR);
}

const struct tokenizer *phi3_tokenizer(void)
{
    return real_tokenizer(&phi3, PHI3_DIR);
}

void close_fixtures(void)
{
    tokenizer_close(small);
    tokenizer_close(sentencepiece);
    tokenizer_close(qwen);
    tokenizer_close(qwen2_5);
    tokenizer_close(llama);
    tokenizer_close(phi3);
    small = sentencepiece = qwen = qwen2_5 = llama = phi3 = NULL;
}

struct ids encode_ok(const struct tokenizer *tok, const char *text, size_t n, bool parse_special)
{
    ey_err e;
    struct ids ids = {0};
    if (!tokenizer_encode(tok, text, n, parse_special, &ids, &e)) fail_msg("%s", e.text);
    return ids;
}

void assert_ids(const char *label, const struct ids *got, const int32_t *want, size_t n)
{
    for (size_t i = 0; i < n && i < got->n; i++)
        if (got->id[i] != want[i])
            fail_msg("\"%s\": id %zu is %d, not %d", label, i, got->id[i], want[i]);
    if (got->n != n) fail_msg("\"%s\": %zu ids, not %zu", label, got->n, n);
}

struct buf decode_ok(const struct tokenizer *tok, const struct ids *ids)
{
    struct buf out = buf_with_max(3 * (size_t)EY_MAX_TEXT_BYTES);
    struct detok d = detok_start(tok);
    for (size_t i = 0; i < ids->n; i++)
        assert_true(detok_push(&d, ids->id[i], &out));
    assert_true(detok_finish(&d, &out));
    return out;
}

uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}
