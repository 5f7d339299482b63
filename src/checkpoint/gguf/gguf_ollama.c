/* SPDX-License-Identifier: Apache-2.0 */
/* Reads Qwen3-VL in the layout of Ollama's library (2025 and 2026). One file has the text model
 * under llama.cpp's names, and the vision encoder under names that resemble the repository's. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/gguf/gguf_internal.h"
#include "tensor/dequantize.h"

enum { QKV = 3 };

bool gguf_is_ollama(const struct gguf *file, const struct gguf_arch *arch)
{
    char key[GGUF_KEY_BYTES];
    return arch->images && gguf_find(file, gguf_arch_key(key, arch, "vision.block_count"));
}

/* ---- names ---- */

/* The names in the file and in the repository, without ".weight" or ".bias". */
static const char *const outer[][2] = {
    {"v.patch_embed", "patch_embed.proj"},
    {"v.pos_embed", "pos_embed"},
    {"v.merger.norm", "merger.norm"},
    {"v.merger.linear_fc1", "merger.linear_fc1"},
    {"v.merger.linear_fc2", "merger.linear_fc2"},
};
static const char *const of_block[][2] = {
    {"norm1", "norm1"},
    {"norm2", "norm2"},
    {"attn_qkv", "attn.qkv"},
    {"attn_out", "attn.proj"},
    {"mlp.linear_fc1", "mlp.linear_fc1"},
    {"mlp.linear_fc2", "mlp.linear_fc2"},
};
static const char *const of_deepstack[][2] = {
    {"norm", "norm"}, {"linear_fc1", "linear_fc1"}, {"linear_fc2", "linear_fc2"}};

static bool ollama_name(char out[GGUF_NAME_BYTES], const char *name)
{
    char folder[64];
    int number;
    const char *rest = gguf_after_number(name, "v.blk.", &number);
    if (rest) {
        snprintf(folder, sizeof(folder), "blocks.%d.", number);
        return gguf_vision_part(out, folder, rest, of_block,
                                sizeof(of_block) / sizeof(of_block[0]));
    }
    rest = gguf_after_number(name, "v.deepstack_merger.", &number);
    if (rest) {
        snprintf(folder, sizeof(folder), "deepstack_merger_list.%d.", number);
        return gguf_vision_part(out, folder, rest, of_deepstack,
                                sizeof(of_deepstack) / sizeof(of_deepstack[0]));
    }
    return gguf_vision_part(out, "", name, outer, sizeof(outer) / sizeof(outer[0]));
}

/* Returns 'q', 'k' or 'v' for the separate query, key or value tensor of a block, else 0. */
static char which_of_qkv(const char *name, int *block)
{
    const char *rest = gguf_after_number(name, "v.blk.", block);
    if (!rest || strncmp(rest, "attn_", 5) != 0 || !rest[5] || !strchr("qkv", rest[5]) ||
        rest[6] != '.')
        return 0;
    return rest[5];
}

/* ---- queries, keys and values as one matrix ---- */

static bool fail_qkv(const struct tensor_view *q, ey_err *e)
{
    return ey_fail(e, EY_BAD_MODEL,
                   "%s: tensor %.200s needs tensors of the same shape for keys and values", q->file,
                   q->name);
}

/* Fills part[] with the query tensor `q` and the key and value tensors of its block. */
static bool find_qkv(const struct tensor_view *part[QKV], const struct gguf_model *m,
                     const struct tensor_view *q, ey_err *e)
{
    char name[GGUF_NAME_BYTES];
    snprintf(name, sizeof(name), "%s", q->name);
    char *letter = strstr(name, "attn_q") + strlen("attn_");
    for (int i = 0; i < QKV; i++) {
        *letter = "qkv"[i];
        const struct tensor_view *t = part[i] = gguf_model_find(m, name);
        if (!t || t->n_dims != q->n_dims || t->n_dims > 2 ||
            memcmp(t->shape, q->shape, (size_t)q->n_dims * sizeof(q->shape[0])) != 0)
            return fail_qkv(q, e);
    }
    return true;
}

/* Returns the type of all three tensors. If they differ, returns F32, which holds every value of
 * F16 and Q8_0 exactly. */
static enum dtype common_type(const struct tensor_view *const part[QKV])
{
    const enum dtype type = part[0]->dtype;
    return part[1]->dtype == type && part[2]->dtype == type ? type : DTYPE_F32;
}

static void copy_as(uint8_t *out, const struct tensor_view *t, enum dtype type)
{
    const int64_t cols = t->shape[t->n_dims - 1], rows = t->n_dims == 2 ? t->shape[0] : 1;
    const struct tensor w = {.data = t->data, .dtype = t->dtype, .rows = rows, .cols = cols};
    if (t->dtype == type) {
        memcpy(out, t->data, t->size);
        return;
    }
    for (int64_t row = 0; row < rows; row++)
        dequantize_columns((float *)(void *)out + row * cols, &w, row, 0, (size_t)cols);
}

static bool can_join(const struct tensor_view *const part[QKV], ey_err *e)
{
    for (int i = 0; i < QKV; i++)
        if (dtype_info(part[i]->dtype)->use != PLAIN_WEIGHT && !dtype_is_gguf(part[i]->dtype))
            return ey_fail(e, EY_BAD_MODEL,
                           "%s: tensor %.200s is stored as %s, which is not a type of weights",
                           part[i]->file, part[i]->name, dtype_info(part[i]->dtype)->label);
    return true;
}

static bool add_qkv(struct gguf_model *m, const struct tensor_view *q, int block, ey_err *e)
{
    char name[GGUF_NAME_BYTES];
    const struct tensor_view *part[QKV];
    if (!find_qkv(part, m, q, e) || !can_join(part, e)) return false;
    struct tensor_view whole = *q;
    whole.dtype = common_type(part);
    int64_t values = 1;
    for (int i = 0; i < q->n_dims; i++)
        values *= q->shape[i];
    const size_t size = whole.dtype == q->dtype ? q->size : (size_t)values * sizeof(float);
    uint8_t *data = arena_array(&m->names, QKV, size);
    if (!data) return ey_fail_memory(e, q->name, QKV * size);
    for (size_t i = 0; i < QKV; i++)
        copy_as(data + i * size, part[i], whole.dtype);
    whole.data = data;
    whole.size = QKV * size;
    whole.shape[0] *= QKV;
    snprintf(name, sizeof(name), "model.visual.blocks.%d.attn.qkv%s", block, strrchr(q->name, '.'));
    return gguf_add_view(m, &whole, name) || ey_fail_memory(e, "names of tensors", sizeof(name));
}

/* ---- the table ---- */

/* Reshapes [3·out, frames, rows, columns] to [out, colors, frames, rows, columns]. */
static bool shape_patches(struct tensor_view *t, ey_err *e)
{
    if (t->n_dims != 4 || t->shape[0] % 3)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: tensor v.patch_embed.weight has %d dimensions and %" PRId64
                       " filters; it must have 4 dimensions and a multiple of 3 filters",
                       t->file, t->n_dims, t->shape[0]);
    memmove(&t->shape[2], &t->shape[1], 3 * sizeof(t->shape[0]));
    t->shape[0] /= 3;
    t->shape[1] = 3;
    t->n_dims = 5;
    return true;
}

static bool add_ollama_view(struct gguf_model *m, const struct tensor_view *from, ey_err *e)
{
    char name[GGUF_NAME_BYTES];
    int block;
    const char which = which_of_qkv(from->name, &block);
    if (which == 'q') return add_qkv(m, from, block, e);
    if (which) return true; /* added with the queries */
    if (!ollama_name(name, from->name))
        return ey_fail(
            e, EY_BAD_MODEL,
            "%s: tensor %.200s does not belong to Qwen3-VL's vision encoder in Ollama's layout",
            from->file, from->name);
    struct tensor_view *t = gguf_add_view(m, from, name);
    if (!t) return ey_fail_memory(e, "names of tensors", sizeof(name));
    return strcmp(from->name, "v.patch_embed.weight") != 0 || shape_patches(t, e);
}

bool gguf_is_ollama_vision(const struct gguf_model *m, const char *name)
{
    return m->one_file && strncmp(name, "v.", 2) == 0;
}

bool gguf_add_ollama_vision(struct gguf_model *m, ey_err *e)
{
    for (size_t p = 0; p < m->n_parts; p++)
        for (size_t i = 0; i < gguf_n_tensors(m->parts[p]); i++) {
            const struct tensor_view *t = gguf_tensor_at(m->parts[p], i);
            if (gguf_is_ollama_vision(m, t->name) && !add_ollama_view(m, t, e)) return false;
        }
    return true;
}
