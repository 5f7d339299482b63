/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/quantized_layouts.h"

#include <inttypes.h>

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "checkpoint/layout_parts.h"

/* ---- GGUF ---- */

/* Undoes llama.cpp's interleaving: rows 2i and 2i + 1 of a head go back to rows i and i + half.
 * Blocks lie within rows, so the move is lossless. The file's pages are dropped after the copy. */
static bool unpair_rows(struct tensor_source *s, struct tensor *w, const struct tensor_view *t,
                        ey_err *e)
{
    const int64_t head = t->paired_rows, half = head / 2;
    if (!head) return true;
    /* a bias is reordered by element */
    const int64_t rows = t->n_dims == 1 ? w->cols : w->rows;
    const size_t row_bytes = t->size / (size_t)rows;
    uint8_t *to = arena_array(s->arena, (size_t)rows, row_bytes);
    if (!to) return ey_fail_memory(e, t->name, t->size);
    for (int64_t row = 0; row < rows; row++) {
        const int64_t in_head = row % head,
                      from = row - in_head + in_head % half * 2 + in_head / half;
        memcpy(to + (size_t)row * row_bytes, t->data + (size_t)from * row_bytes, row_bytes);
    }
    file_map_release_pages(t->data, t->size);
    w->data = to;
    return true;
}

/* Reads the global scale of an NVFP4 matrix. An absent one counts as 1. */
static bool read_factor(struct tensor_source *s, struct tensor *w, const char *name, ey_err *e)
{
    char full[SOURCE_MAX_NAME];
    const int64_t one = 1;
    snprintf(full, sizeof(full), "%.200s.factor", name);
    const struct tensor_view *t = source_find(s, full);
    if (!t) return true;
    if (w->dtype != DTYPE_GGUF_NVFP4)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: tensor %s has a global scale, which the type %s does not use", t->file,
                       name, dtype_info(w->dtype)->label);
    if (t->dtype != DTYPE_F32) return fail_view_dtype(t, "F32", e);
    if (!check_view_shape(t, &one, 1, e)) return false;
    float *factor = arena_array(s->arena, 1, sizeof(*factor));
    if (!factor) return ey_fail_memory(e, "weight scales", sizeof(*factor));
    memcpy(factor, t->data, sizeof(*factor));
    s->bytes += t->size;
    w->factor = factor;
    return (*factor > 0 && *factor < 1e30f) ||
           ey_fail(e, EY_BAD_MODEL, "%s: tensor %s must be a positive number below 1e30", t->file,
                   t->name);
}

/* ---- any layout ---- */

static bool find_view(struct tensor_source *s, const struct tensor_view **out, const char *name,
                      const int64_t *dims, int n_dims, ey_err *e)
{
    const struct tensor_view *t = source_find_or_fail(s, name, e);
    if (!t || !check_view_shape(t, dims, n_dims, e)) return false;
    s->bytes += t->size;
    *out = t;
    return true;
}

bool source_plain(struct tensor_source *s, struct tensor *out, const char *name,
                  const int64_t *dims, int n_dims, ey_err *e)
{
    const struct tensor_view *t;
    int64_t cols = 1;
    if (!find_view(s, &t, name, dims, n_dims, e)) return false;
    for (int i = n_dims == 1 ? 0 : 1; i < n_dims; i++)
        cols *= dims[i];
    *out = (struct tensor){
        .data = t->data, .dtype = t->dtype, .rows = n_dims == 1 ? 1 : dims[0], .cols = cols};
    return (dtype_info(t->dtype)->use == PLAIN_WEIGHT ||
            fail_view_dtype(t, "BF16, F16 or F32", e)) &&
           unpair_rows(s, out, t, e);
}

static bool fail_matrix_dtype(const struct tensor_view *t, ey_err *e)
{
    char wanted[200] = "BF16, F16, F32";
    dtype_append_names(wanted, sizeof(wanted), 1U << QUANTIZED_WEIGHT);
    return fail_view_dtype(t, wanted, e);
}

/* Fails if the matrix has tensors that no supported layout uses. */
static bool check_no_extras(const struct tensor_source *s, const struct wanted_matrix *m, ey_err *e)
{
    static const char *const suffixes[] = {".pre_quant_scale", ".svdquant_lora_a", ".SCB",
                                           ".weight.absmax", ".weight.quant_map"};
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        const struct tensor_view *t = find_module_part(s, m, suffixes[i]);
        if (t)
            return ey_fail(e, EY_BAD_MODEL,
                           "%s: tensor %s belongs to a layout that is not supported; download a "
                           "compressed-tensors, AWQ, GPTQ or FP8 checkpoint, or the original",
                           t->file, t->name);
    }
    return true;
}

/* Tensors that hold quantized values under another name than the matrix. */
struct code_tensors {
    const struct tensor_view *packed, *qweight;
};

static bool read_codes_of(struct tensor_source *s, struct tensor *out,
                          const struct wanted_matrix *m, const struct code_tensors *t, ey_err *e)
{
    if (!check_no_extras(s, m, e)) return false;
    if (t->qweight) return read_qweight(s, out, m, t->qweight, e);
    return t->packed->dtype == DTYPE_U8 ? read_fp4(s, out, m, t->packed, e)
                                        : read_packed_integers(s, out, m, t->packed, e);
}

/* Reads a matrix whose values are in the tensor of the same name. */
static bool read_matrix(struct tensor_source *s, struct tensor *out, const struct wanted_matrix *m,
                        const struct tensor_view *t, ey_err *e)
{
    const int64_t dims[2] = {m->rows, m->cols};
    const struct dtype_traits *type = dtype_info(t->dtype);
    if (type->use != PLAIN_WEIGHT && !check_no_extras(s, m, e)) return false;
    if (t->dtype == DTYPE_U8 && find_beside(s, m, "_scale")) return read_fp4(s, out, m, t, e);
    if (!check_view_shape(t, dims, 2, e)) return false;
    if (t->dtype == DTYPE_I8 && find_beside(s, m, "_scale"))
        return read_signed_bytes(s, out, m, t, e);
    if (t->dtype == DTYPE_F8_E4M3) return read_fp8(s, out, m, t, e);
    *out = (struct tensor){.data = t->data, .dtype = t->dtype, .rows = m->rows, .cols = m->cols};
    s->bytes += t->size;
    if (dtype_is_gguf(t->dtype) && !read_factor(s, out, t->name, e)) return false;
    return (type->use == PLAIN_WEIGHT || dtype_is_gguf(t->dtype) || fail_matrix_dtype(t, e)) &&
           unpair_rows(s, out, t, e);
}

bool source_matrix(struct tensor_source *s, struct tensor *out, const char *name, int64_t rows,
                   int64_t cols, ey_err *e)
{
    const struct wanted_matrix m = {name, rows, cols};
    const struct code_tensors codes = {find_beside(s, &m, "_packed"),
                                       find_module_part(s, &m, ".qweight")};
    const struct tensor_view *plain = source_find(s, name),
                             *other = codes.packed ? codes.packed : codes.qweight;
    if (!plain && other) return read_codes_of(s, out, &m, &codes, e);
    if (plain && other)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: both %s and %s are present; only one of them can be the matrix",
                       other->file, plain->name, other->name);
    return (plain || (plain = source_find_or_fail(s, name, e)) != NULL) &&
           read_matrix(s, out, &m, plain, e);
}

bool source_has_matrix(const struct tensor_source *s, const char *name)
{
    const struct wanted_matrix m = {name, 0, 0};
    return source_find(s, name) || find_beside(s, &m, "_packed") ||
           find_module_part(s, &m, ".qweight");
}

/* Whether all FP8 blocks have one scale, as in files with a scale per tensor. Then parts may begin
 * inside a block. */
static bool has_equal_block_scales(const struct tensor *w)
{
    const int64_t n = w->scale ? fp8_blocks(w->rows) * fp8_blocks(w->cols) : 0;
    for (int64_t i = 1; i < n; i++)
        if (w->scale[i] != w->scale[0]) return false;
    return n > 0;
}

bool matrix_rows(struct tensor *out, const struct tensor *whole, int64_t first, int64_t rows,
                 ey_err *e)
{
    const int block = weight_row_unit(whole);
    if (first % block && !has_equal_block_scales(whole))
        return ey_fail(e, EY_BAD_MODEL,
                       "a part of a fused quantized matrix begins at row %" PRId64
                       ", inside a block of %d rows",
                       first, block);
    *out = *whole;
    out->rows = rows;
    if (whole->recipe) {
        out->recipe_row = whole->recipe_row + first;
        return true;
    }
    out->data = (const uint8_t *)whole->data + (size_t)first * weight_row_bytes(whole);
    out->scale = weight_row_scale(whole, first);
    if (whole->row_scale) out->row_scale = whole->row_scale + first;
    if (!whole->group_size) return true;
    const int64_t before = first * weight_groups(whole);
    out->group_scale = (const uint8_t *)whole->group_scale +
                       (size_t)before * weight_scale_size(whole);
    if (whole->group_zero)
        out->group_zero = (const uint8_t *)whole->group_zero +
                          before / ZEROS_PER_WORD * (int64_t)sizeof(uint32_t);
    return true;
}
