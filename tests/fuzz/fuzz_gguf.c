/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a GGUF file: refused with a message, or tensors whose blocks are all readable. Its
 * metadata then gives a configuration and a tokenizer, or a message. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint/gguf/gguf_model.h"
#include "tensor/dequantize.h"
#include "tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) abort();
}

/* Reads the first and last row; the address must be inside the file. */
static void read_tensor(const struct tensor_view *t, const uint8_t *data, size_t size)
{
    enum { MOST = 1 << 16 };
    const int64_t cols = t->shape[t->n_dims - 1];
    require(t->data >= data && t->size <= size && (size_t)(t->data - data) <= size - t->size);
    if (dtype_info(t->dtype)->use == NO_WEIGHT || cols > MOST) return;
    const struct tensor w = {
        .data = t->data,
        .dtype = t->dtype,
        .rows = (int64_t)(t->size / ((size_t)cols / dtype_info(t->dtype)->values *
                                     dtype_info(t->dtype)->bytes)),
        .cols = cols};
    float *row = malloc((size_t)cols * sizeof(*row));
    require(row != NULL);
    dequantize_columns(row, &w, 0, 0, (size_t)cols);
    dequantize_columns(row, &w, w.rows - 1, 0, (size_t)cols);
    free(row);
}

static void read_tokenizer(const struct gguf_model *m)
{
    struct tokenizer *tok = NULL;
    struct ids ids = {0};
    ey_err e = {0};
    static const char text[] = "hello 12 \xc3\xa9\x04 <|im_start|>";
    json_object *root = gguf_model_tokenizer(m, &e);
    if (!root || !tokenizer_open_json(&tok, root, "the file", &e)) {
        require(e.text[0] != 0);
    } else {
        require(tokenizer_encode(tok, text, sizeof(text) - 1, true, &ids, &e));
        for (size_t i = 0; i < ids.n; i++)
            require(ids.id[i] >= 0 && ids.id[i] < tokenizer_size(tok));
        ids_free(&ids);
        tokenizer_close(tok);
    }
    json_object_put(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf *file = NULL;
    struct gguf_model *m = NULL;
    ey_err e = {0};
    if (!gguf_open_memory(&file, data, size, "the file", &e)) {
        require(e.text[0] != 0);
        return 0;
    }
    for (size_t i = 0; i < gguf_n_tensors(file); i++)
        read_tensor(gguf_tensor_at(file, i), data, size);
    if (!gguf_model_of(&m, file, &e)) {
        require(e.text[0] != 0);
        return 0;
    }
    require(gguf_model_json(m, "config.json") != NULL);
    read_tokenizer(m);
    gguf_model_close(m);
    return 0;
}
