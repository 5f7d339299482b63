/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/stored_tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "checkpoint/quantized_layouts.h"
#include "checkpoint/repack.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *ending_of(const char *name, const char *end)
{
    return name_ends_with(name, end) ? name + strlen(name) - strlen(end) : NULL;
}

/* ---- enumeration ---- */

/* Returns whether a tensor only accompanies a quantized matrix (scales, zero points). */
static bool is_part(const char *name)
{
    static const char *const parts[] = {".weight_scale",
                                        ".weight_scale_inv",
                                        ".weight_zero_point",
                                        ".weight_shape",
                                        ".weight_g_idx",
                                        ".weight_scale_2",
                                        ".weight_global_scale",
                                        ".input_scale",
                                        ".input_global_scale",
                                        ".qzeros",
                                        ".scales",
                                        ".g_idx",
                                        ".factor",
                                        ".k_scale",
                                        ".v_scale",
                                        ".input_zero_point"};
    for (size_t i = 0; i < COUNT(parts); i++)
        if (ending_of(name, parts[i])) return true;
    return false;
}

/* Derives the name of a matrix from that of the tensor with its quantized values. Returns false for
 * any other tensor. */
static bool matrix_name(char out[SOURCE_MAX_NAME], const char *name)
{
    static const char *const codes[] = {".weight_packed", ".qweight", ".weight"};
    for (size_t i = 0; i < COUNT(codes); i++) {
        const char *end = ending_of(name, codes[i]);
        if (!end) continue;
        snprintf(out, SOURCE_MAX_NAME, "%.*s.weight", (int)(end - name), name);
        return true;
    }
    return false;
}

/* Writes the shape of a text model's matrix. Returns false if the name is not that of such a
 * matrix. */
static bool text_matrix_shape(int64_t shape[2], const struct text_shape *t, const char *name)
{
    const int64_t q = text_q_width(t), kv = text_kv_width(t), hidden = t->hidden, mlp = t->mlp;
    const struct {
        const char *end;
        int64_t rows, cols;
    } known[] = {
        {".q_proj.weight", q, hidden},
        {".k_proj.weight", kv, hidden},
        {".v_proj.weight", kv, hidden},
        {".qkv_proj.weight", q + 2 * kv, hidden},
        {".o_proj.weight", hidden, q},
        {".gate_proj.weight", mlp, hidden},
        {".up_proj.weight", mlp, hidden},
        {".gate_up_proj.weight", 2 * mlp, hidden},
        {".down_proj.weight", hidden, mlp},
        {"embed_tokens.weight", t->vocab_size, hidden},
        {"lm_head.weight", t->vocab_size, hidden},
    };
    for (size_t i = 0; i < COUNT(known); i++) {
        if (!ending_of(name, known[i].end)) continue;
        shape[0] = known[i].rows;
        shape[1] = known[i].cols;
        return true;
    }
    return false;
}

static bool describe_tensor(struct stored_tensor *t, const struct convert_source *source,
                            const struct tensor_view *view, ey_err *e)
{
    *t = (struct stored_tensor){.view = view, .n_dims = view->n_dims};
    memcpy(t->shape, view->shape, sizeof(t->shape));
    if (!matrix_name(t->name, view->name)) snprintf(t->name, sizeof(t->name), "%s", view->name);
    const bool vision = strstr(t->name, "visual.") != NULL;
    if (!vision && text_matrix_shape(t->shape, source->text, t->name)) {
        t->is_matrix = true;
        t->n_dims = 2;
        return true;
    }
    t->is_matrix = view->n_dims == 2 && dtype_is_gguf(view->dtype);
    return strcmp(t->name, view->name) == 0 ||
           ey_fail(e, EY_BAD_MODEL,
                   "%s: tensor %s is quantized, but belongs to no known matrix; it cannot be "
                   "converted",
                   view->file, view->name);
}

bool stored_tensors_list(struct stored_tensors *out, const struct convert_source *source, ey_err *e)
{
    const size_t n = checkpoint_count(source->ckpt);
    *out = (struct stored_tensors){.tensor = calloc(n + 1, sizeof(*out->tensor))};
    if (!out->tensor) return ey_fail_memory(e, "the list of tensors", n * sizeof(*out->tensor));
    for (size_t i = 0; i < n; i++) {
        const struct tensor_view *view = checkpoint_at(source->ckpt, i);
        if (is_part(view->name)) continue;
        if (!describe_tensor(&out->tensor[out->n++], source, view, e)) return false;
    }
    return true;
}

void stored_tensors_free(struct stored_tensors *tensors)
{
    free(tensors->tensor);
    *tensors = (struct stored_tensors){0};
}

/* ---- loading ---- */

static bool repack_loaded(struct loaded_tensor *out, const struct convert_source *source, ey_err *e)
{
    const struct tensor recipe = out->w;
    const size_t bytes = repacked_bytes(&recipe);
    out->memory = aligned_alloc(64, bytes);
    if (!out->memory) return ey_fail_memory(e, "a matrix", bytes);
    return repack_weight(&out->w, out->memory, &recipe, source->pool, e);
}

bool stored_tensor_load(struct loaded_tensor *out, const struct convert_source *source,
                        const struct stored_tensor *t, ey_err *e)
{
    static const struct name_alias none[1];
    *out = (struct loaded_tensor){.memory = NULL};
    struct tensor_source s = {.ckpt = source->ckpt,
                              .arena = &out->arena,
                              .aliases = none,
                              .quantization = source->quantization};
    if (!t->is_matrix) return source_plain(&s, &out->w, t->view->name, t->shape, t->n_dims, e);
    if (!source_matrix(&s, &out->w, t->name, t->shape[0], t->shape[1], e)) return false;
    return !out->w.recipe || repack_loaded(out, source, e);
}

void loaded_tensor_free(struct loaded_tensor *loaded)
{
    arena_free(&loaded->arena);
    free(loaded->memory);
    *loaded = (struct loaded_tensor){.memory = NULL};
}
