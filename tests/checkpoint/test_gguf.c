/* SPDX-License-Identifier: Apache-2.0 */
/* Untrusted GGUF files: the contents of valid ones (tools/gguf/make_seeds.py), one message for each
 * kind of damage, and thousands of headers with a changed byte or a missing end. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf/gguf_files.h"
#include "checkpoint/gguf/gguf_model.h"
#include "checkpoint/gguf/gguf_writer.h"
#include "checkpoint/quantized_layouts.h"
#include "checkpoint/temp_dir.h"
#include "tensor/dequantize.h"
#include "tokenizer/tokenizer.h"

#define SEEDS "tests/fuzz/corpus/gguf/"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* tests/fuzz/fuzz_gguf.c */

struct bytes {
    char *data;
    size_t n;
};

static struct bytes read_seed(const char *name)
{
    struct bytes b;
    char path[256];
    ey_err e;
    snprintf(path, sizeof(path), SEEDS "%s", name);
    if (!file_read(&b.data, &b.n, path, 1 << 20, &e)) fail_msg("%s", e.text);
    return b;
}

/* Finds the text, which must exist. */
static char *find_text(const struct bytes *b, const char *text)
{
    char *at = memmem(b->data, b->n, text, strlen(text));
    if (!at) fail_msg("%s is not in the file", text);
    return at;
}

/* ---- valid files ---- */

static void reads_values(void **state)
{
    (void)state;
    struct gguf *f;
    ey_err e;
    int64_t n = 0;
    double eps = 0;
    if (!gguf_open(&f, SEEDS "byte-level.gguf", &e)) fail_msg("%s", e.text);
    assert_true(gguf_text_is(f, "general.architecture", "llama"));
    assert_true(gguf_int(f, "llama.embedding_length", 1, 100, &n, &e) && n == 32);
    assert_false(gguf_int(f, "llama.embedding_length", 1, 31, &n, &e));
    assert_non_null(strstr(e.text, "llama.embedding_length is 32; it must be from 1 to 31"));
    assert_false(gguf_int(f, "general.name", 1, 31, &n, &e));
    assert_true(gguf_optional_real(f, "llama.attention.layer_norm_rms_epsilon", &eps, &e));
    assert_true(eps > 0.99e-5 && eps < 1.01e-5);
    assert_int_equal(gguf_n_tensors(f), 11);
    const struct tensor_view *t = gguf_tensor_at(f, 0);
    assert_string_equal(t->name, "token_embd.weight");
    assert_int_equal(t->dtype, DTYPE_Q8_0);
    assert_true(t->n_dims == 2 && t->shape[0] == 263 && t->shape[1] == 32);
    assert_int_equal(t->size, 263 * 34);
    gguf_close(f);
}

static struct tokenizer *open_tokenizer(const char *path)
{
    struct checkpoint *c;
    struct tokenizer *tok = NULL;
    ey_err e;
    if (!checkpoint_open(&c, path, &e)) fail_msg("%s", e.text);
    json_object *root = checkpoint_tokenizer(c, &e);
    if (!root || !tokenizer_open_json(&tok, root, path, &e)) fail_msg("%s", e.text);
    json_object_put(root);
    checkpoint_close(c);
    return tok;
}

static void encodes_as(const struct tokenizer *tok, const char *text, const int32_t *want, size_t n)
{
    struct ids ids = {0};
    ey_err e;
    if (!tokenizer_encode(tok, text, strlen(text), true, &ids, &e)) fail_msg("%s", e.text);
    assert_int_equal(ids.n, n);
    assert_memory_equal(ids.id, want, n * sizeof(*want));
    ids_free(&ids);
}

static void reads_tokenizers(void **state)
{
    (void)state;
    struct tokenizer *tok = open_tokenizer(SEEDS "byte-level.gguf");
    encodes_as(tok, "hello<|im_end|>", (const int32_t[]){259, 261}, 2);
    encodes_as(tok, "a 12", (const int32_t[]){'a', ' ', '1', '2'}, 4);
    encodes_as(tok, "[PAD262]", (const int32_t[]){'[', 'P', 'A', 'D', '2', '6', '2', ']'}, 8);
    assert_int_equal(tokenizer_bos_id(tok), -1);
    assert_int_equal(tokenizer_size(tok), 262);
    tokenizer_close(tok);
    tok = open_tokenizer(SEEDS "sentencepiece.gguf");
    encodes_as(tok, "hello", (const int32_t[]){268}, 1);
    encodes_as(tok, "z", (const int32_t[]){259, 3 + 'z'}, 2);
    assert_int_equal(tokenizer_bos_id(tok), 1);
    tokenizer_close(tok);
}

/* Tensors have the family's names and shapes, and the rows of queries are in their original order.
 */
static void reads_models(void **state)
{
    (void)state;
    struct checkpoint *c;
    struct arena arena = {0};
    struct tensor w;
    float row[32], stored[32];
    ey_err e;
    static const struct name_alias none[1];
    if (!checkpoint_open(&c, SEEDS "byte-level.gguf", &e)) fail_msg("%s", e.text);
    struct tensor_source s = {.ckpt = c, .arena = &arena, .aliases = none};
    const struct tensor_view *q = checkpoint_find(c, "model.layers.0.self_attn.q_proj.weight");
    assert_non_null(q);
    if (!source_matrix(&s, &w, q->name, 32, 32, &e)) fail_msg("%s", e.text);
    assert_int_equal(w.dtype, DTYPE_Q4_0);
    const struct tensor file = {.data = q->data, .dtype = q->dtype, .rows = 32, .cols = 32};
    for (int64_t i = 0; i < 32; i++) {
        const int64_t in_head = i % 16, from = i - in_head + in_head % 8 * 2 + in_head / 8;
        dequantize_columns(row, &w, i, 0, 32);
        dequantize_columns(stored, &file, from, 0, 32);
        assert_memory_equal(row, stored, sizeof(row));
    }
    assert_false(source_plain(&s, &w, q->name, (const int64_t[]){32, 32}, 2, &e));
    assert_non_null(strstr(e.text, "is stored as Q4_0; it must be BF16, F16 or F32"));
    const json_object *config = checkpoint_config(c);
    assert_true(json_object_get_boolean(json_member(config, "tie_word_embeddings")));
    assert_int_equal(json_object_get_int(json_member(config, "vocab_size")), 263);
    checkpoint_close(c);
    arena_free(&arena);
}

/* ---- damaged files ---- */

/* n bytes, `at` bytes after the text, are replaced. */
static const struct damage {
    const char *text;
    long at;
    size_t n;
    const char *bytes, *message;
} damages[] = {
    {"GGUF", 0, 4, "GGML", "not a GGUF file"},
    {"GGUF", 4, 4, "\1\0\0\0", "GGUF version 1 is too old"},
    {"GGUF", 4, 4, "\0\0\0\3", "big-endian GGUF files are not supported"},
    {"GGUF", 4, 4, "\4\0\0\0", "GGUF version 4 is not supported"},
    {"GGUF", 8, 8, "\377\377\377\377\377\377\377\177", " tensors, more than the file can hold"},
    {"GGUF", 16, 8, "\377\377\377\377\377\377\377\377",
     " metadata keys, more than the file can hold"},
    {"general.name", -8, 8, "\0\0\0\0\0\0\0\0", "has a name of 0 bytes"},
    {"general.name", -8, 8, "\377\377\377\377\377\377\377\177", "has a string of"},
    {"general.name", 12, 4, "\15\0\0\0", "has the unknown value type 13"},
    {"llama.block_count", 6, 11, "block_couns", "the key llama.block_count is missing"},
    {"llama.context_length", 20, 4, "\6\0\0\0", "llama.context_length must be an integer"},
    {"general.architecture", 32, 5, "lamal", "the architecture lamal is not supported"},
    {"general.file_type", 0, 25, "general.alignment\4\0\0\0\3\0\0\0", "general.alignment is 3"},
    {"tokenizer.ggml.tokens", 25, 4, "\11\0\0\0", "an array of arrays"},
    {"tokenizer.ggml.tokens", 29, 8, "\377\377\377\77\0\0\0\0",
     "is an array of 1073741823 values, but the file ends after"},
    {"tokenizer.ggml.tokens", 29, 8, "\1\0\0\100\0\0\0\0",
     "is an array of 1073741825 values, more than the limit of 1073741824"},
    {"llama.rope.freq_base", 0, 20, "llama.context_length", "occurs twice"},
    {"llama.rope.dimension_count", 30, 4, "\10\0\0\0", "only RoPE that covers the whole head"},
    {"tokenizer.chat_template", 35, 1, "\377", "chat_template must be a UTF-8 string"},
    {"tokenizer.chat_template", 35, 1, "\0", "chat_template must be a UTF-8 string"},
    {"token_embd.weight", 17, 4, "\5\0\0\0", "has 5 dimensions, not 1 to 4"},
    {"token_embd.weight", 17, 4, "\0\0\0\0", "has 0 dimensions"},
    {"token_embd.weight", 21, 8, "\41\0\0\0\0\0\0\0", "are not a multiple of Q8_0's block of 32"},
    {"token_embd.weight", 21, 8, "\0\0\0\0\0\0\0\0", "dimension 0 is 0"},
    {"token_embd.weight", 29, 8, "\0\0\0\0\0\0\0\177", "does not fit in 64 bits"},
    {"token_embd.weight", 29, 8, "\0\0\0\1\0\0\0\0", "it is truncated"},
    {"token_embd.weight", 37, 4, "\22\0\0\0",
     "has type IQ3_XXS, which is not supported; use a Q4_K_M"},
    {"token_embd.weight", 37, 4, "\4\0\0\0", "has type Q4_2, which was removed"},
    {"token_embd.weight", 37, 4, "\143\0\0\0", "has type 99, which is unknown"},
    {"token_embd.weight", 41, 8, "\1\0\0\0\0\0\0\0", "is not a multiple of the alignment"},
    {"blk.0.attn_norm.weight", 38, 8, "\0\0\0\0\0\0\0\0", "overlap"},
    {"blk.0.attn_norm.weight", 0, 22, "blk.0.attn_what.weight",
     "tensor blk.0.attn_what.weight does not belong"},
    {"blk.0.attn_norm.weight", 0, 22, "blk.0.ffn_up_exps.bias", "belongs to a mixture of experts"},
    {"blk.0.attn_norm.weight", 0, 22, "rope_freqs.weight.long", "scales RoPE by frequency"},
    {"blk.0.attn_q.weight", 0, 19, "blk.0.attn_k.weight",
     "tensor blk.0.attn_k.weight occurs twice"},
};

static void names_damage(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        const struct damage *d = &damages[i];
        struct bytes b = read_seed("byte-level.gguf");
        struct gguf *f;
        struct gguf_model *m;
        ey_err e = {0};
        memcpy(find_text(&b, d->text) + d->at, d->bytes, d->n);
        const bool ok = gguf_open_memory(&f, (const uint8_t *)b.data, b.n, "f.gguf", &e) &&
                        gguf_model_of(&m, f, &e);
        if (ok || !strstr(e.text, d->message))
            fail_msg("\"%s\" for damage %zu, not \"%s\"", ok ? "(none)" : e.text, i, d->message);
        assert_null(strchr(e.text, '\n'));
        free(b.data);
    }
}

/* Damage of the tokenizer, which is read later. */
static const struct damage token_damages[] = {
    {"smollm", 0, 6, "tekken", "tokenizer.ggml.pre is tekken"},
    {"gpt2", 0, 4, "bert", "tokenizer.ggml.model is missing or not supported"},
    {"hell o", 0, 6, "hell!o", "model.merges[3]"},
    {"tokenizer.ggml.token_type", 0, 25, "tokenizer.ggml.scores____", NULL},
    {"hello", -8, 13, "\5\0\0\0\0\0\0\0\0bcde", "is empty, longer than"},
};

static void names_damaged_tokenizers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(token_damages) / sizeof(token_damages[0]); i++) {
        const struct damage *d = &token_damages[i];
        struct bytes b = read_seed("byte-level.gguf");
        struct gguf *f;
        struct gguf_model *m = NULL;
        struct tokenizer *tok = NULL;
        ey_err e = {0};
        memcpy(find_text(&b, d->text) + d->at, d->bytes, d->n);
        if (!gguf_open_memory(&f, (const uint8_t *)b.data, b.n, "f.gguf", &e) ||
            !gguf_model_of(&m, f, &e))
            fail_msg("%s", e.text);
        json_object *root = gguf_model_tokenizer(m, &e);
        const bool ok = root && tokenizer_open_json(&tok, root, "f.gguf", &e);
        if (ok != !d->message || (!ok && !strstr(e.text, d->message)))
            fail_msg("\"%s\", not \"%s\"", ok ? "(none)" : e.text, d->message);
        json_object_put(root);
        tokenizer_close(tok);
        gguf_model_close(m);
        free(b.data);
    }
}

static void names_a_score_that_is_no_number(void **state)
{
    (void)state;
    struct bytes b = read_seed("sentencepiece.gguf");
    struct gguf *f;
    struct gguf_model *m;
    ey_err e;
    memcpy(find_text(&b, "tokenizer.ggml.scores") + 37 + 4 * 260, "\0\0\300\177", 4);
    if (!gguf_open_memory(&f, (const uint8_t *)b.data, b.n, "f.gguf", &e) ||
        !gguf_model_of(&m, f, &e))
        fail_msg("%s", e.text);
    assert_null(gguf_model_tokenizer(m, &e));
    assert_non_null(strstr(e.text, "the score of token 260 is not a finite number"));
    gguf_model_close(m);
    free(b.data);
}

/* Headers with one changed byte and truncated files either load or give a message. */
static void survives_changes(void **state)
{
    (void)state;
    static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
    static const char *const names[] = {"byte-level.gguf", "sentencepiece.gguf", "vision.gguf"};
    for (size_t k = 0; k < 3; k++) {
        struct bytes b = read_seed(names[k]);
        const size_t header = b.n < 9000 ? b.n : 9000, step = k < 2 ? 5 : 1;
        for (size_t i = k; i < header; i += step) {
            const char was = b.data[i];
            b.data[i] = (char)values[i / step % sizeof(values)];
            LLVMFuzzerTestOneInput((const uint8_t *)b.data, b.n);
            b.data[i] = was;
        }
        for (size_t n = 0; n < header; n += 37) {
            /* a block of this size, so that a sanitizer sees reads past its end */
            uint8_t *cut = malloc(n + 1);
            memcpy(cut, b.data, n);
            LLVMFuzzerTestOneInput(cut, n);
            free(cut);
        }
        free(b.data);
    }
}

/* ---- several files ---- */

static void names_missing_parts(void **state)
{
    (void)state;
    const char *dir = temp_dir_make();
    struct bytes b = read_seed("byte-level.gguf");
    struct checkpoint *c;
    ey_err e;
    temp_file(dir, "m-00001-of-00002.gguf", b.data, b.n);
    assert_false(checkpoint_open(&c, temp_path(dir, "m-00001-of-00002.gguf"), &e));
    assert_non_null(strstr(e.text, "the key split.no is missing"));
    temp_file(dir, "n-00002-of-00002.gguf", b.data, b.n);
    assert_false(checkpoint_open(&c, temp_path(dir, "n-00002-of-00002.gguf"), &e));
    assert_non_null(strstr(e.text, "part 1 of 2 is missing"));
    assert_true(gguf_is_part_of("n-00002-of-00002.gguf", "n-00001-of-00002.gguf"));
    assert_false(gguf_is_part_of("n-00002-of-00003.gguf", "n-00001-of-00002.gguf"));
    temp_file(dir, "vision.gguf", b.data, 64);
    assert_false(checkpoint_open(&c, temp_path(dir, "vision.gguf"), &e));
    assert_false(checkpoint_open(&c, SEEDS "vision.gguf", &e));
    assert_non_null(strstr(e.text, "this is a vision encoder (mmproj), not a model"));
    temp_dir_remove(dir);
    free(b.data);
}

/* The hyperparameters of a small model. */
static void put_numbers(struct gguf_writer *w)
{
    static const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {{"llama.block_count", 1},          {"llama.context_length", 64},
                   {"llama.embedding_length", 32},    {"llama.feed_forward_length", 32},
                   {"llama.attention.head_count", 2}, {"llama.attention.head_count_kv", 2}};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        gguf_put_u32(w, numbers[i].key, numbers[i].value);
    gguf_put_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
}

/* Writes part i of a two-part model with this architecture and name. */
static void write_part(const char *path, unsigned i, const char *arch, const char *name,
                       const char *tensor)
{
    static const int64_t shape[2] = {4, 32};
    static const float zeros[4 * 32];
    struct gguf_writer w;
    gguf_writer_begin(&w);
    gguf_put_text(&w, "general.architecture", arch, strlen(arch));
    gguf_put_text(&w, "general.name", name, strlen(name));
    put_numbers(&w);
    gguf_put_u32(&w, "split.no", i);
    gguf_put_u32(&w, "split.count", 2);
    gguf_put_u32(&w, "split.tensors.count", 2);
    const uint64_t at = gguf_writer_add(&w, tensor, DTYPE_F32, shape, 2);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && gguf_write_header(&w, fd) &&
                gguf_write_data(&w, zeros, sizeof(zeros), at));
    close(fd);
    gguf_writer_free(&w);
}

static void names_experts(void **state)
{
    (void)state;
    static const int64_t shape[2] = {4, 32};
    static const float zeros[4 * 32];
    const char *dir = temp_dir_make();
    char path[400];
    struct gguf_writer w;
    struct gguf_model *m;
    ey_err e;
    snprintf(path, sizeof(path), "%s/experts.gguf", dir);
    gguf_writer_begin(&w);
    gguf_put_text(&w, "general.architecture", "llama", 5);
    put_numbers(&w);
    gguf_put_u32(&w, "llama.expert_count", 8);
    const uint64_t at = gguf_writer_add(&w, "token_embd.weight", DTYPE_F32, shape, 2);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && gguf_write_header(&w, fd) &&
                gguf_write_data(&w, zeros, sizeof(zeros), at));
    close(fd);
    gguf_writer_free(&w);
    assert_false(gguf_model_open(&m, path, NULL, &e));
    if (!strstr(e.text, "llama.expert_count is 8; mixtures of experts are not supported"))
        fail_msg("%s", e.text);
    temp_dir_remove(dir);
}

static void names_parts_of_other_models(void **state)
{
    (void)state;
    static const struct {
        unsigned number;
        const char *arch, *name, *tensor, *message;
    } second[] = {
        {1, "qwen2", "one", "output_norm.weight",
         "00002.gguf: the file is not a part of the same model"},
        {1, "llama", "two", "output_norm.weight",
         "00002.gguf: the file is not a part of the same model"},
        {0, "llama", "one", "output_norm.weight",
         "says that it is part 1 of 2, but its name says 2"},
        {1, "llama", "one", "token_embd.weight", "tensor model.embed_tokens.weight is in both "},
        {1, "llama", "one", "rope_freqs.weight", "rope_freqs.weight scales RoPE by frequency"},
    };
    const char *dir = temp_dir_make();
    for (size_t i = 0; i < sizeof(second) / sizeof(second[0]); i++) {
        struct gguf_model *m;
        ey_err e;
        char first[400], other[400];
        snprintf(first, sizeof(first), "%s/m-00001-of-00002.gguf", dir);
        snprintf(other, sizeof(other), "%s/m-00002-of-00002.gguf", dir);
        write_part(first, 0, "llama", "one", "token_embd.weight");
        write_part(other, second[i].number, second[i].arch, second[i].name, second[i].tensor);
        assert_false(gguf_model_open(&m, first, NULL, &e));
        if (!strstr(e.text, second[i].message)) fail_msg("%s", e.text);
    }
    temp_dir_remove(dir);
}

/* llama.cpp stores the global scale of an NVFP4 matrix as a separate tensor with one element. */
static void reads_scales_of_queries(void **state)
{
    (void)state;
    static const char *const names[] = {"token_embd.weight", "blk.0.attn_q.weight",
                                        "blk.0.attn_q.scale", "blk.0.attn_k.scale"};
    static const int64_t matrix[2] = {32, 32}, one = 1;
    static const float zeros[32 * 32];
    const char *dir = temp_dir_make();
    char path[400];
    uint64_t at[4];
    struct gguf_writer w;
    struct gguf_model *m;
    ey_err e;
    snprintf(path, sizeof(path), "%s/scales.gguf", dir);
    gguf_writer_begin(&w);
    gguf_put_text(&w, "general.architecture", "llama", 5);
    put_numbers(&w);
    for (int i = 0; i < 4; i++)
        at[i] = gguf_writer_add(&w, names[i], DTYPE_F32, i < 2 ? matrix : &one, i < 2 ? 2 : 1);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && gguf_write_header(&w, fd));
    for (int i = 0; i < 4; i++)
        assert_true(gguf_write_data(&w, zeros, i < 2 ? sizeof(zeros) : sizeof(*zeros), at[i]));
    close(fd);
    gguf_writer_free(&w);
    if (!gguf_model_open(&m, path, NULL, &e)) fail_msg("%s", e.text);
    assert_int_equal(gguf_model_n_tensors(m), 4);
    for (size_t i = 0; i < 4; i++) {
        const struct tensor_view *t = gguf_model_tensor_at(m, i);
        assert_int_equal(t->paired_rows,
                         strstr(t->name, "q_proj.weight") && t->n_dims == 2 ? 16 : 0);
    }
    gguf_model_close(m);
    temp_dir_remove(dir);
}

/* ---- Ollama's layout ---- */

/* Faults of a file in Ollama's layout. */
struct ollama_fault {
    int64_t key_rows, patch_filters;
    int patch_dims;
    uint32_t deepstack;
    const char *extra, *message;
    const char *scaling; /* rope.scaling.type; NULL: none */
    float factor;        /* rope.scaling.factor; 0: none */
};
static const struct ollama_fault sound = {.key_rows = 32, .patch_filters = 12, .patch_dims = 4};

enum { PATCH_VALUES = 12 * 2 * 4 * 4, OLLAMA_VALUES = 64 * 32 };

static void put_ollama_keys(struct gguf_writer *w, const struct ollama_fault *fault)
{
    static const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {{"block_count", 1},          {"context_length", 64},
                   {"embedding_length", 32},    {"feed_forward_length", 32},
                   {"attention.head_count", 2}, {"attention.head_count_kv", 2},
                   {"vision.block_count", 1},   {"vision.embedding_length", 32},
                   {"vision.patch_size", 4},    {"vision.attention.head_count", 2}};
    static const char *const colors[] = {"qwen3vl.vision.image_mean", "qwen3vl.vision.image_std"};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        char key[64];
        snprintf(key, sizeof(key), "qwen3vl.%s", numbers[i].key);
        gguf_put_u32(w, key, numbers[i].value);
    }
    gguf_put_f32(w, "qwen3vl.attention.layer_norm_rms_epsilon", 1e-5f);
    for (int k = 0; k < 2; k++) {
        gguf_put_array(w, colors[k], GGUF_F32, 3);
        for (int i = 0; i < 3; i++)
            gguf_add_f32(w, 0.5f);
    }
    gguf_put_array(w, "qwen3vl.vision.deepstack_visual_indexes", GGUF_U32, 1);
    gguf_add_u32(w, fault->deepstack);
    if (fault->scaling)
        gguf_put_text(w, "qwen3vl.rope.scaling.type", fault->scaling, strlen(fault->scaling));
    if (fault->factor != 0) gguf_put_f32(w, "qwen3vl.rope.scaling.factor", fault->factor);
}

/* Writes n numbers: first, first + 1, ... */
static void add_rising(struct gguf_writer *w, int fd, uint64_t at, size_t n, float first)
{
    static float values[OLLAMA_VALUES];
    for (size_t i = 0; i < n; i++)
        values[i] = first + (float)i;
    w->fd = fd;
    assert_true(gguf_write_data(w, values, n * sizeof(*values), at));
}

/* Queries and keys are F32; values are Q8_0 with scales of 1. */
static void write_ollama(const char *path, const struct ollama_fault *fault)
{
    const struct {
        const char *name;
        enum dtype dtype;
        int n_dims;
        int64_t shape[4];
    } tensors[] = {
        {"token_embd.weight", DTYPE_F32, 2, {4, 32}},
        {"v.pos_embed.weight", DTYPE_F32, 2, {16, 32}},
        {"v.blk.0.mlp.linear_fc1.weight", DTYPE_F32, 2, {64, 32}},
        {"v.blk.0.attn_q.weight", DTYPE_F32, 2, {32, 32}},
        {"v.blk.0.attn_k.weight", DTYPE_F32, 2, {fault->key_rows, 32}},
        {"v.blk.0.attn_v.weight", DTYPE_Q8_0, 2, {32, 32}},
        {"v.patch_embed.weight", DTYPE_F32, fault->patch_dims, {fault->patch_filters, 2, 4, 4}},
        {fault->extra ? fault->extra : "v.merger.norm.weight", DTYPE_F32, 1, {32}},
    };
    enum { N = sizeof(tensors) / sizeof(tensors[0]) };
    struct gguf_writer w;
    uint64_t at[N];
    uint8_t blocks[32][34] = {{0}};
    gguf_writer_begin(&w);
    gguf_put_text(&w, "general.architecture", "qwen3vl", 7);
    put_ollama_keys(&w, fault);
    for (int i = 0; i < N; i++)
        at[i] = gguf_writer_add(&w, tensors[i].name, tensors[i].dtype, tensors[i].shape,
                                tensors[i].n_dims);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && gguf_write_header(&w, fd));
    for (int i = 0; i < N; i++) {
        size_t n = 1;
        for (int d = 0; d < tensors[i].n_dims; d++)
            n *= (size_t)tensors[i].shape[d];
        if (tensors[i].dtype == DTYPE_F32) add_rising(&w, fd, at[i], n, 1000.0f * (float)i);
    }
    for (int row = 0; row < 32; row++) {
        blocks[row][1] = 0x3c; /* 1 in half precision */
        memset(blocks[row] + 2, row, 32);
    }
    assert_true(gguf_write_data(&w, blocks, sizeof(blocks), at[5]));
    close(fd);
    gguf_writer_free(&w);
}

static const struct tensor_view *view_named(const struct gguf_model *m, const char *name)
{
    for (size_t i = 0; i < gguf_model_n_tensors(m); i++)
        if (strcmp(gguf_model_tensor_at(m, i)->name, name) == 0) return gguf_model_tensor_at(m, i);
    fail_msg("%s is missing", name);
    return NULL;
}

static void reads_ollamas_layout(void **state)
{
    (void)state;
    static const int64_t joined[2] = {96, 32}, patches[5] = {4, 3, 2, 4, 4};
    const char *dir = temp_dir_make();
    char path[400];
    struct gguf_model *m;
    ey_err e;
    snprintf(path, sizeof(path), "%s/ollama.gguf", dir);
    write_ollama(path, &sound);
    if (!gguf_model_open(&m, path, NULL, &e)) fail_msg("%s", e.text);
    const struct tensor_view *t = view_named(m, "model.visual.blocks.0.attn.qkv.weight");
    const float *values = (const float *)(const void *)t->data;
    assert_true(t->n_dims == 2 && memcmp(t->shape, joined, sizeof(joined)) == 0);
    assert_true(t->dtype == DTYPE_F32 && t->size == 96 * 32 * sizeof(float));
    assert_true(values[33] == 3033 && values[32 * 32 + 33] == 4033 && values[65 * 32] == 1);
    t = view_named(m, "model.visual.patch_embed.proj.weight");
    assert_true(t->n_dims == 5 && memcmp(t->shape, patches, sizeof(patches)) == 0);
    assert_true(t->size == PATCH_VALUES * sizeof(float));
    const json_object *config = json_member(gguf_model_json(m, "config.json"), "vision_config");
    assert_int_equal(json_object_get_int(json_member(config, "num_position_embeddings")), 16);
    assert_int_equal(json_object_get_int(json_member(config, "intermediate_size")), 64);
    assert_int_equal(json_object_get_int(json_member(config, "out_hidden_size")), 32);
    gguf_model_close(m);
    temp_dir_remove(dir);
}

/* The reader keeps the type of RoPE scaling of a vision model; src/models refuses all but
 * "default". */
static void keeps_rope_scaling_with_images(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        float factor;
        const char *kept;
    } rows[] = {{NULL, 0, "default"},
                {NULL, 1, "default"},
                {NULL, 4, "linear"},
                {"none", 4, "default"},
                {"yarn", 4, "yarn"}};
    const char *dir = temp_dir_make();
    char path[400];
    snprintf(path, sizeof(path), "%s/ollama.gguf", dir);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct ollama_fault scaled = sound;
        struct gguf_model *m;
        ey_err e;
        scaled.scaling = rows[i].type;
        scaled.factor = rows[i].factor;
        write_ollama(path, &scaled);
        if (!gguf_model_open(&m, path, NULL, &e)) fail_msg("%s", e.text);
        const json_object *text = json_member(gguf_model_json(m, "config.json"), "text_config"),
                          *rope = json_member(text, "rope_scaling");
        assert_string_equal(json_object_get_string(json_member(rope, "rope_type")), rows[i].kept);
        gguf_model_close(m);
    }
    temp_dir_remove(dir);
}

static void survives_changes_of_ollamas_layout(void **state)
{
    (void)state;
    static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
    const char *dir = temp_dir_make();
    char path[400];
    struct bytes b;
    ey_err e;
    snprintf(path, sizeof(path), "%s/ollama.gguf", dir);
    write_ollama(path, &sound);
    if (!file_read(&b.data, &b.n, path, 1 << 20, &e)) fail_msg("%s", e.text);
    for (size_t i = 0; i < 1800; i++) {
        const char was = b.data[i];
        b.data[i] = (char)values[i % sizeof(values)];
        LLVMFuzzerTestOneInput((const uint8_t *)b.data, b.n);
        b.data[i] = was;
    }
    free(b.data);
    temp_dir_remove(dir);
}

static void names_faults_of_ollamas_layout(void **state)
{
    (void)state;
    static const struct ollama_fault faults[] = {
        {16, 12, 4, 0, NULL, "attn_q.weight needs tensors of the same shape for keys and values",
         NULL, 0},
        {32, 13, 4, 0, NULL, "v.patch_embed.weight has 4 dimensions and 13 filters", NULL, 0},
        {32, 12, 3, 0, NULL, "v.patch_embed.weight has 3 dimensions", NULL, 0},
        {32, 12, 4, 1 << 20, NULL, "deepstack_visual_indexes must name at most", NULL, 0},
        {32, 12, 4, 0, "v.what.weight", "tensor v.what.weight does not belong to Qwen3-VL's", NULL,
         0},
        {32, 12, 4, 0, "v.pos_embed.bia", "tensor v.pos_embed.bia does not belong to Qwen3-VL's",
         NULL, 0},
    };
    const char *dir = temp_dir_make();
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        char path[400];
        struct gguf_model *m;
        ey_err e;
        snprintf(path, sizeof(path), "%s/ollama.gguf", dir);
        write_ollama(path, &faults[i]);
        assert_false(gguf_model_open(&m, path, NULL, &e));
        if (!strstr(e.text, faults[i].message)) fail_msg("%s", e.text);
    }
    temp_dir_remove(dir);
}

/* A small model whose tokenizer has n identical tokens and this many empty merges. */
static struct gguf_model *model_of_tokens(const char *path, size_t n, size_t merges)
{
    static const int64_t shape[2] = {4, 32};
    static const float zeros[4 * 32];
    struct gguf_writer w;
    struct gguf_model *m;
    ey_err e;
    gguf_writer_begin(&w);
    gguf_put_text(&w, "general.architecture", "llama", 5);
    put_numbers(&w);
    gguf_put_text(&w, "tokenizer.ggml.model", "gpt2", 4);
    gguf_put_text(&w, "tokenizer.ggml.pre", "gpt-2", 5);
    gguf_put_array(&w, "tokenizer.ggml.merges", GGUF_STRING, merges);
    for (size_t i = 0; i < merges; i++)
        gguf_add_text(&w, "", 0);
    gguf_put_array(&w, "tokenizer.ggml.tokens", GGUF_STRING, n);
    for (size_t i = 0; i < n; i++)
        gguf_add_text(&w, "0", 1);
    const uint64_t at = gguf_writer_add(&w, "token_embd.weight", DTYPE_F32, shape, 2);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && gguf_write_header(&w, fd) &&
                gguf_write_data(&w, zeros, sizeof(zeros), at));
    close(fd);
    gguf_writer_free(&w);
    if (!gguf_model_open(&m, path, NULL, &e)) fail_msg("%s", e.text);
    return m;
}

static void names_too_many_tokens(void **state)
{
    (void)state;
    static const struct {
        size_t n, merges;
        const char *message;
    } rows[] = {
        {1, EY_MAX_MERGES + 1, "it has more than 4194304 merges"},
        {EY_MAX_VOCAB_SIZE + 1, 0, "has 1048577 tokens; the number must be from 1 to 1048576"},
        {1000000, 0, "tokens 0 and 1 of tokenizer.ggml.tokens are both \"0\""},
    };
    const char *dir = temp_dir_make();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char path[400];
        ey_err e;
        snprintf(path, sizeof(path), "%s/tokens.gguf", dir);
        struct gguf_model *m = model_of_tokens(path, rows[i].n, rows[i].merges);
        assert_null(gguf_model_tokenizer(m, &e));
        if (!strstr(e.text, rows[i].message)) fail_msg("%s", e.text);
        gguf_model_close(m);
    }
    temp_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_values),
        cmocka_unit_test(reads_tokenizers),
        cmocka_unit_test(reads_models),
        cmocka_unit_test(names_damage),
        cmocka_unit_test(names_damaged_tokenizers),
        cmocka_unit_test(names_a_score_that_is_no_number),
        cmocka_unit_test(survives_changes),
        cmocka_unit_test(names_missing_parts),
        cmocka_unit_test(names_experts),
        cmocka_unit_test(names_parts_of_other_models),
        cmocka_unit_test(reads_scales_of_queries),
        cmocka_unit_test(reads_ollamas_layout),
        cmocka_unit_test(keeps_rope_scaling_with_images),
        cmocka_unit_test(survives_changes_of_ollamas_layout),
        cmocka_unit_test(names_faults_of_ollamas_layout),
        cmocka_unit_test(names_too_many_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
