/* SPDX-License-Identifier: Apache-2.0 */
/* Hundreds of headers with one change: of checkpoints in each 4-bit and 8-bit layout, of their
 * configurations, and of GGUF files (with a real one, if tools/real/fetch.sh was run). Each is
 * refused with one line that names the file, or opens with readable matrices. Unchanged headers and
 * ones with harmless changes open. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "checkpoint/gguf/gguf_model.h"
#include "checkpoint/repack.h"
#include "checkpoint/temp_dir.h"
#include "models/ckpt_edit.h"
#include "models/model.h"
#include "tensor/dequantize.h"

enum { HEADERS = 60, CONFIGS = 40, GGUF_HEADERS = 400, LENGTH_BYTES = 8, MAX_HEADER = 1 << 20 };

static const char *base_dir;
static struct pool *pool;
static int refused, opened;

static unsigned seed;
static unsigned below(size_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (unsigned)((seed >> 8) % n);
}

struct bytes {
    char *data;
    size_t n;
};

/* The error must be one line that names this file or a JSON file. */
static void expect_one_line(const ey_err *e, const char *file, const char *what, int i)
{
    const bool names_one = strstr(e->text, file) || strstr(e->text, ".json: ");
    refused++;
    if (!e->text[0] || strchr(e->text, '\n') || !names_one)
        fail_msg("%s, number %d: \"%s\"", what, i, e->text);
}

/* ---- other text ---- */

static void replace_span(struct bytes *b, size_t at, size_t n, const char *with)
{
    const size_t m = strlen(with);
    memmove(b->data + at + m, b->data + at + n, b->n - at - n);
    memcpy(b->data + at, with, m);
    b->n += m;
    b->n -= n;
}

/* The first number at or after `from`, else the first in the file; *n is its length. */
static size_t find_number(const struct bytes *b, size_t from, size_t *n)
{
    const char digits[] = "0123456789";
    for (int turn = 0; turn < 2; turn++, from = 0)
        for (size_t i = from; i < b->n; i++)
            if (strchr(digits, b->data[i]) && b->data[i]) {
                for (*n = 1; i + *n < b->n && strchr(digits, b->data[i + *n]) && b->data[i + *n];)
                    ++*n;
                return i;
            }
    return *n = 0;
}

/* Replaces an occurrence of the text, from a random place on. */
static bool replace_text(struct bytes *b, const char *text, const char *with)
{
    size_t from = below(b->n);
    for (int turn = 0; turn < 2; turn++, from = 0) {
        const char *at = memmem(b->data + from, b->n - from, text, strlen(text));
        if (!at) continue;
        replace_span(b, (size_t)(at - b->data), strlen(text), with);
        return true;
    }
    return false;
}

/* Changes one thing in JSON. The buffer has room for longer text. */
static void mutate_json(struct bytes *b)
{
    static const char *const numbers[] = {"0",   "1",       "-1",         "3",
                                          "7.5", "99999",   "4294967296", "9223372036854775807",
                                          "1e9", "\"128\"", "null",       "[]"};
    static const char *const pairs[][2] = {
        {"I32", "F32"},           {"I32", "I8"},
        {"BF16", "F16"},          {"F16", "I64"},
        {"F8_E4M3", "U8"},        {"U8", "BOOL"},
        {"_packed", "_packec"},   {"_scale", "_scald"},
        {"qweight", "qweighs"},   {"qzeros", "qzeroes"},
        {"layers.0", "layers.1"}, {"q_proj", "k_proj"},
        {"scales", "g_idx"},      {"dtype", "dtypf"},
        {"shape", "shap"},        {"data_offsets", "shape"},
        {"true", "false"},        {"false", "7"},
        {"group", "channel"},     {"int", "float"},
        {"\"bits\"", "\"bit\""},  {"awq", "gptq"},
        {"gptq", "awq"},          {"gemm", "gemv"},
        {"symmetric", "sym"},     {"pack-quantized", "marlin-24"},
    };
    static const char bytes[] = {'"', '{', '}', '[', ']', ',', ':', '9', '-', ' ', '\\', 0, 1, -1};
    size_t n, at = below(b->n);
    switch (below(4)) {
    case 0: b->data[at] = bytes[below(sizeof(bytes))]; return;
    case 1:
        n = below(40);
        if (n > b->n - at - 1) n = b->n - at - 1;
        replace_span(b, at, n, ""); /* deletes a piece */
        return;
    case 2:
        for (int tries = 0; tries < 50; tries++) {
            const unsigned i = below(sizeof(pairs) / sizeof(pairs[0]));
            if (replace_text(b, pairs[i][0], pairs[i][1])) return;
        }
        return;
    default:
        at = find_number(b, at, &n);
        replace_span(b, at, n, numbers[below(sizeof(numbers) / sizeof(numbers[0]))]);
        return;
    }
}

/* ---- checkpoints ---- */

static void read_matrix(const struct tensor *stored)
{
    struct tensor w = *stored;
    void *memory = NULL;
    ey_err e;
    float *row = malloc((size_t)w.cols * sizeof(*row));
    assert_non_null(row);
    if (w.recipe) {
        memory = aligned_alloc(64, repacked_bytes(stored));
        assert_non_null(memory);
        if (!repack_weight(&w, memory, stored, pool, &e)) fail_msg("%s", e.text);
    }
    for (int64_t r = 0; r<w.rows; r += w.rows> 1 ? w.rows - 1 : 1)
        dequantize_columns(row, &w, r, 0, (size_t)w.cols);
    free(memory);
    free(row);
}

static void read_matrices(const struct model *m)
{
    for (int64_t i = 0; i < m->text.n_layers; i++) {
        const struct text_layer_tensors *layer = &m->layers[i];
        const struct tensor *const of[] = {
            &layer->attention.q, &layer->attention.k, &layer->attention.v, &layer->attention.o,
            &layer->mlp.gate,    &layer->mlp.up,      &layer->mlp.down};
        for (size_t k = 0; k < sizeof(of) / sizeof(of[0]); k++)
            if (of[k]->cols) read_matrix(of[k]);
    }
}

static bool opens(const char *dir, ey_err *e)
{
    struct checkpoint *c = NULL;
    struct model m = {0};
    *e = (ey_err){0};
    const bool ok = checkpoint_open(&c, dir, e) && model_open(&m, c, NULL, e);
    if (ok) read_matrices(&m);
    model_close(&m);
    checkpoint_close(c);
    return ok;
}

static void open_mutated(const char *dir, const char *what, int i)
{
    ey_err e;
    if (opens(dir, &e))
        opened++;
    else
        expect_one_line(&e, dir, what, i);
}

static void expect_opens(const char *dir, const char *what)
{
    ey_err e;
    if (!opens(dir, &e)) fail_msg("%s: %s", what, e.text);
}

static struct bytes with_room(const char *data, size_t n)
{
    struct bytes b = {malloc(n + 64), n};
    assert_non_null(b.data);
    memcpy(b.data, data, n);
    return b;
}

static struct bytes read_whole(const char *dir, const char *file)
{
    char path[512];
    struct bytes b;
    ey_err e;
    snprintf(path, sizeof(path), "%s/%s", dir, file);
    if (!file_read(&b.data, &b.n, path, (size_t)64 << 20, &e)) fail_msg("%s", e.text);
    return b;
}

/* Splits a safetensors file at `data` into its header and the rest. */
static struct bytes header_of(const struct bytes *file, size_t *data)
{
    uint64_t length;
    memcpy(&length, file->data, sizeof(length));
    assert_true(length < MAX_HEADER && length < file->n);
    *data = LENGTH_BYTES + (size_t)length;
    return with_room(file->data + LENGTH_BYTES, (size_t)length);
}

/* Writes the header and the file's data, at most `most` bytes. */
static void write_with_header(const char *dir, const struct bytes *header, const struct bytes *file,
                              size_t data, size_t most)
{
    const uint64_t length = header->n;
    const size_t all = LENGTH_BYTES + header->n + file->n - data;
    char *whole = malloc(all);
    assert_non_null(whole);
    memcpy(whole, &length, sizeof(length));
    memcpy(whole + LENGTH_BYTES, header->data, header->n);
    memcpy(whole + LENGTH_BYTES + header->n, file->data + data, file->n - data);
    ckpt_write_file(dir, "model.safetensors", whole, all < most ? all : most);
    free(whole);
}

static void mutate_header(const char *dir, const struct bytes *file, const char *what, int i)
{
    size_t data;
    struct bytes header = header_of(file, &data);
    mutate_json(&header);
    const size_t most = i % 10 == 9 ? below(LENGTH_BYTES + header.n + file->n - data) : SIZE_MAX;
    write_with_header(dir, &header, file, data, most);
    free(header.data);
    open_mutated(dir, what, i);
}

static void mutate_config(const char *dir, const struct bytes *config, const char *what, int i)
{
    struct bytes other = with_room(config->data, config->n);
    mutate_json(&other);
    ckpt_write_file(dir, "config.json", other.data, other.n);
    free(other.data);
    open_mutated(dir, what, HEADERS + i);
}

/* Opens the files as they are, then with harmless changes: spaces, an unknown key. */
static void open_unchanged(const char *dir, const struct bytes *file, const struct bytes *config,
                           const char *what)
{
    size_t data;
    struct bytes header = header_of(file, &data), other = with_room(config->data, config->n);
    expect_opens(dir, what);
    replace_span(&header, 1, 0, "  ");
    write_with_header(dir, &header, file, data, SIZE_MAX);
    const char *brace = memchr(other.data, '{', other.n);
    assert_non_null(brace);
    replace_span(&other, (size_t)(brace - other.data) + 1, 0, "\"nobodys_key\": [1, {}],");
    ckpt_write_file(dir, "config.json", other.data, other.n);
    expect_opens(dir, what);
    ckpt_write_file(dir, "config.json", config->data, config->n);
    free(header.data);
    free(other.data);
}

static void mutate_kind(const char *kind)
{
    const char *good = ckpt_make(base_dir, kind);
    char dir[512];
    struct bytes file = read_whole(good, "model.safetensors"),
                 config = read_whole(good, "config.json");
    snprintf(dir, sizeof(dir), "%s/%s-mutated", base_dir, kind);
    ckpt_copy(good, dir);
    refused = opened = 0;
    open_unchanged(dir, &file, &config, kind);
    for (int i = 0; i < HEADERS; i++)
        mutate_header(dir, &file, kind, i);
    ckpt_write_file(dir, "model.safetensors", file.data, file.n);
    for (int i = 0; i < CONFIGS; i++)
        mutate_config(dir, &config, kind, i);
    print_message("%s: %d are refused, %d open\n", kind, refused, opened);
    assert_true(refused > 40 && opened > 10);
    free(file.data);
    free(config.data);
}

static void packed_checkpoints(void **state)
{
    (void)state;
    static const char *const kinds[] = {"tiny-qwen3-w8a16", "tiny-qwen3-nvfp4", "tiny-qwen2-awq",
                                        "tiny-llama-gptq", "tiny-phi3-fp8rows"};
    seed = 1;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        mutate_kind(kinds[i]);
}

/* ---- GGUF ---- */

/* Reads the first rows of all tensors. */
static void read_tensors(const struct gguf *f)
{
    for (size_t i = 0; i < gguf_n_tensors(f); i++) {
        const struct tensor_view *t = gguf_tensor_at(f, i);
        const int64_t cols = t->shape[t->n_dims - 1];
        const struct tensor w = {.data = t->data, .dtype = t->dtype, .rows = 1, .cols = cols};
        if (dtype_info(t->dtype)->use == NO_WEIGHT || cols > 1 << 20) continue;
        float *row = malloc((size_t)cols * sizeof(*row));
        assert_non_null(row);
        dequantize_columns(row, &w, 0, 0, (size_t)cols);
        free(row);
    }
}

static void open_gguf(const char *data, size_t n, bool tokens, const char *what, int i)
{
    struct gguf *f;
    struct gguf_model *m;
    struct json_object *tokenizer;
    ey_err e = {0};
    if (!gguf_open_memory(&f, (const uint8_t *)data, n, "the-file.gguf", &e)) {
        expect_one_line(&e, "the-file.gguf", what, i);
        return;
    }
    read_tensors(f);
    if (!gguf_model_of(&m, f, &e)) {
        expect_one_line(&e, "the-file.gguf", what, i);
        return;
    }
    opened++;
    if (tokens && !(tokenizer = gguf_model_tokenizer(m, &e)))
        expect_one_line(&e, "the-file.gguf", what, i);
    else if (tokens)
        json_object_put(tokenizer);
    gguf_model_close(m);
}

/* A place among the keys at the start, among the tensors at the end, or anywhere. */
static size_t place_in_header(size_t header)
{
    const size_t part = header < 24000 ? header / 3 : 8000;
    switch (below(5)) {
    case 0:
    case 1: return below(part);
    case 2:
    case 3: return header - 1 - below(part);
    default: return below(header);
    }
}

/* Opens the file as it is, then with another letter in the model's name. */
static void open_unchanged_gguf(char *data, size_t n, size_t header, const char *what)
{
    enum { NAME_BYTES = 12, TYPE_BYTES = 4 };
    refused = opened = 0;
    open_gguf(data, n, true, what, -1);
    char *name = memmem(data, header, "general.name", NAME_BYTES);
    assert_non_null(name);
    char *letter = name + NAME_BYTES + TYPE_BYTES + LENGTH_BYTES;
    const char was = *letter;
    *letter = '_';
    open_gguf(data, n, true, what, -1);
    *letter = was;
    if (refused || opened != 2) fail_msg("%s does not open", what);
}

/* Changes the bytes of a number, a letter or a length. */
static void mutate_gguf(char *data, size_t n, size_t header, const char *what)
{
    static const unsigned char bytes[] = {0, 1, 2, 8, 9, 13, 0x7f, 0x80, 0xff};
    open_unchanged_gguf(data, n, header, what);
    refused = opened = 0;
    for (int i = 0; i < GGUF_HEADERS; i++) {
        const size_t at = place_in_header(header), wide = below(3) ? 1 : 8;
        char was[8];
        memcpy(was, data + at, sizeof(was));
        memset(data + at, bytes[below(sizeof(bytes))], wide);
        open_gguf(data, i % 10 == 9 ? below(header) : n, i % 20 == 0, what, i);
        memcpy(data + at, was, sizeof(was));
    }
    print_message("%s: %d are refused, %d open\n", what, refused, opened);
    assert_true(refused > 100 && opened > 50);
}

static void gguf_seeds(void **state)
{
    (void)state;
    static const char *const names[] = {"byte-level.gguf", "sentencepiece.gguf"};
    seed = 2;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct bytes b = read_whole("tests/fuzz/corpus/gguf", names[i]);
        mutate_gguf(b.data, b.n, b.n < 9000 ? b.n : 9000, names[i]);
        free(b.data);
    }
}

static bool find_real(char *out, size_t size)
{
    const char *set = getenv("EYELET_REAL"), *home = getenv("HOME");
    static const char name[] = "SmolLM2-135M-Instruct.Q4_1.gguf";
    if (set && *set)
        snprintf(out, size, "%s/%s", set, name);
    else
        snprintf(out, size, "%s/.cache/eyelet/real/%s", home ? home : "", name);
    return path_is_file(out);
}

/* SmolLM2. The mapping is private, so changes do not reach the file. */
static void a_real_file(void **state)
{
    (void)state;
    enum { SMOLLM2_HEADER = 1785664 };
    char path[512];
    struct stat st;
    if (!find_real(path, sizeof(path))) skip();
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    char *data = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    close(fd);
    assert_ptr_not_equal(data, MAP_FAILED);
    seed = 3;
    mutate_gguf(data, (size_t)st.st_size, SMOLLM2_HEADER, "SmolLM2");
    munmap(data, (size_t)st.st_size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_checkpoints),
        cmocka_unit_test(gguf_seeds),
        cmocka_unit_test(a_real_file),
    };
    ey_err e;
    base_dir = temp_dir_until_exit();
    if (!pool_create(&pool, 1, &e)) return fprintf(stderr, "%s\n", e.text), 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pool_destroy(&pool);
    return failed;
}
