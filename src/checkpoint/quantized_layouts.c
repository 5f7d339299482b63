/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/quantized_layouts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "tensor/dequantize.h"

/* ---- a scale for 128 x 128 values ---- */

/* Scales of any float type as float32 in the arena. */
static bool read_block_scales(struct tensor_source *s, struct tensor *w, const char *name,
                              ey_err *e)
{
    char scale_name[SOURCE_MAX_NAME];
    snprintf(scale_name, sizeof(scale_name), "%s_scale_inv", name);
    const struct tensor_view *t = source_find(s, scale_name);
    if (!t)
        return ey_fail(e, EY_BAD_MODEL, "%s: tensor %s is %s but its scales %s are missing",
                       checkpoint_directory(s->ckpt), name, dtype_info(w->dtype)->name, scale_name);
    const int64_t dims[2] = {fp8_blocks(w->rows), fp8_blocks(w->cols)};
    if (!check_view_shape(t, dims, 2, e)) return false;
    if (dtype_info(t->dtype)->use != PLAIN_WEIGHT) return fail_view_dtype(t, "F32, BF16 or F16", e);
    size_t n = (size_t)dims[0] * (size_t)dims[1];
    float *scale = arena_array(s->arena, n, sizeof(float));
    if (!scale) return ey_fail_memory(e, "weight scales", n * sizeof(float));
    elements_to_f32(scale, t->data, t->dtype, n);
    w->scale = scale;
    s->bytes += t->size;
    return true;
}

/* ---- four bits: pack-quantized, of compressed-tensors (docs/guides/quantization.md) ---- */

/* NAME_part of that shape and dtype; *out stays NULL where it is absent and need not be there. */
static bool find_int4_tensor(const struct tensor_source *s, const struct tensor_view **out,
                             const char *name, const char *suffix, enum dtype dtype, int64_t rows,
                             int64_t cols, bool needed, ey_err *e)
{
    char full[SOURCE_MAX_NAME];
    const int64_t dims[2] = {rows, cols};
    snprintf(full, sizeof(full), "%.200s_%.40s", name, suffix);
    *out = needed ? source_find_or_fail(s, full, e) : source_find(s, full);
    if (!*out) return !needed;
    if ((*out)->dtype != dtype) return fail_view_dtype(*out, dtype_info(dtype)->name, e);
    return check_view_shape(*out, dims, 2, e);
}

/* From the number of scales in a row. */
static bool find_int4_group(const struct tensor_source *s, int *group, const char *name,
                            int64_t cols, ey_err *e)
{
    char full[SOURCE_MAX_NAME];
    snprintf(full, sizeof(full), "%.200s_scale", name);
    const struct tensor_view *t = source_find_or_fail(s, full, e);
    if (!t) return false;
    const int64_t groups = t->n_dims == 2 ? t->shape[1] : 0;
    *group = groups > 0 && cols % groups == 0 && cols / groups <= 128 ? (int)(cols / groups) : 0;
    return *group == 32 || *group == 64 || *group == 128 ||
           ey_fail(e, EY_BAD_MODEL,
                   "%s: tensor %s has %lld scales a row for %lld columns; groups of 32, 64 or "
                   "128 columns are supported",
                   t->file, t->name, (long long)groups, (long long)cols);
}

/* Fifteen of them must be a number, too. */
static bool check_int4_scales(const struct tensor_view *t, ey_err *e)
{
    enum { LARGEST = 0x7d80 /* 2^124 */ };
    for (size_t i = 0; i < t->size / sizeof(uint16_t); i++) {
        uint16_t bits;
        memcpy(&bits, t->data + i * sizeof(bits), sizeof(bits));
        if (bits == 0 || bits > LARGEST)
            return ey_fail(e, EY_BAD_MODEL,
                           "%s: number %zu of tensor %s is no positive number of at most 2^124",
                           t->file, i, t->name);
    }
    return true;
}

/* Zeros of a checkpoint that has none: all in the middle. */
static const void *default_zero_points(const struct tensor_source *s, size_t words)
{
    uint32_t *zero = arena_array(s->arena, words, sizeof(*zero));
    for (size_t i = 0; zero && i < words; i++)
        zero[i] = 0x88888888;
    return zero;
}

static bool read_int4(struct tensor_source *s, struct tensor *out, const char *name, int64_t rows,
                      int64_t cols, ey_err *e)
{
    const struct tensor_view *packed, *scale, *zero;
    char g_idx[SOURCE_MAX_NAME];
    int group;
    if (!find_int4_group(s, &group, name, cols, e)) return false;
    const int64_t groups = cols / group;
    if (!find_int4_tensor(s, &packed, name, "packed", DTYPE_I32, rows, cols / 8, true, e) ||
        !find_int4_tensor(s, &scale, name, "scale", DTYPE_BF16, rows, groups, true, e) ||
        !find_int4_tensor(s, &zero, name, "zero_point", DTYPE_I32, (rows + 7) / 8, groups, false,
                          e) ||
        !check_int4_scales(scale, e))
        return false;
    snprintf(g_idx, sizeof(g_idx), "%.200s_g_idx", name);
    if (source_find(s, g_idx))
        return ey_fail(e, EY_BAD_MODEL, "%s: tensor %s: columns in another order are not supported",
                       packed->file, g_idx);
    *out = (struct tensor){.data = packed->data,
                           .dtype = DTYPE_INT4,
                           .rows = rows,
                           .cols = cols,
                           .group_size = group,
                           .group_scale = scale->data};
    out->group_zero = zero ? zero->data : default_zero_points(s, (size_t)((rows + 7) / 8 * groups));
    s->bytes += packed->size + scale->size + (zero ? zero->size : 0);
    return out->group_zero ||
           ey_fail_memory(e, "zeros", (size_t)((rows + 7) / 8 * groups) * sizeof(uint32_t));
}

static bool has_int4_tensors(const struct tensor_source *s, const char *name)
{
    char packed[SOURCE_MAX_NAME];
    snprintf(packed, sizeof(packed), "%.200s_packed", name);
    return source_find(s, packed) && !source_find(s, name);
}

/* ---- GGUF ---- */

/* Rows 2i and 2i + 1 of a head go back to i and i + half: blocks lie within rows, so nothing is
 * lost. The file's pages are not read again. */
static bool unpair_rows(struct tensor_source *s, struct tensor *w, const struct tensor_view *t,
                        ey_err *e)
{
    const int64_t head = t->paired_rows, half = head / 2;
    if (!head) return true;
    /* a vector's values are its rows */
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

/* What all of an NVFP4 matrix is multiplied with; absent: it is 1. */
static bool read_factor(struct tensor_source *s, struct tensor *w, const char *name, ey_err *e)
{
    char full[SOURCE_MAX_NAME];
    const int64_t one = 1;
    snprintf(full, sizeof(full), "%.200s.factor", name);
    const struct tensor_view *t = source_find(s, full);
    if (!t) return true;
    if (w->dtype != DTYPE_GGUF_NVFP4)
        return ey_fail(e, EY_BAD_MODEL, "%s: tensor %s has a scale, which %s has none", t->file,
                       name, dtype_info(w->dtype)->label);
    if (t->dtype != DTYPE_F32) return fail_view_dtype(t, "F32", e);
    if (!check_view_shape(t, &one, 1, e)) return false;
    float *factor = arena_array(s->arena, 1, sizeof(*factor));
    if (!factor) return ey_fail_memory(e, "weight scales", sizeof(*factor));
    memcpy(factor, t->data, sizeof(*factor));
    s->bytes += t->size;
    w->factor = factor;
    return (*factor > 0 && *factor < 1e30f) ||
           ey_fail(e, EY_BAD_MODEL, "%s: tensor %s is no positive number", t->file, t->name);
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

/* Its values in one tensor. */
static bool read_matrix(struct tensor_source *s, struct tensor *out, const char *name, int64_t rows,
                        int64_t cols, ey_err *e)
{
    const struct tensor_view *t;
    const int64_t dims[2] = {rows, cols};
    if (!find_view(s, &t, name, dims, 2, e)) return false;
    *out = (struct tensor){.data = t->data, .dtype = t->dtype, .rows = rows, .cols = cols};
    const struct dtype_traits *type = dtype_info(t->dtype);
    if (type->use == NO_WEIGHT) return fail_matrix_dtype(t, e);
    if (type->scales == BLOCK_SCALES) return read_block_scales(s, out, name, e);
    return read_factor(s, out, name, e) && unpair_rows(s, out, t, e);
}

bool source_matrix(struct tensor_source *s, struct tensor *out, const char *name, int64_t rows,
                   int64_t cols, ey_err *e)
{
    return has_int4_tensors(s, name) ? read_int4(s, out, name, rows, cols, e)
                                     : read_matrix(s, out, name, rows, cols, e);
}

bool matrix_rows(struct tensor *out, const struct tensor *whole, int64_t first, int64_t rows,
                 ey_err *e)
{
    const int block = weight_row_unit(whole);
    if (first % block)
        return ey_fail(e, EY_BAD_MODEL,
                       "a part of a fused quantized matrix begins at row %" PRId64
                       ", inside a block of %d",
                       first, block);
    *out = *whole;
    out->data = (const uint8_t *)whole->data + (size_t)first * weight_row_bytes(whole);
    out->rows = rows;
    out->scale = weight_row_scale(whole, first);
    if (!whole->group_size) return true;
    out->group_scale = (const uint8_t *)whole->group_scale +
                       first * weight_groups(whole) * (int64_t)sizeof(uint16_t);
    out->group_zero = (const uint8_t *)whole->group_zero +
                      first / ZEROS_PER_WORD * weight_groups(whole) * (int64_t)sizeof(uint32_t);
    return true;
}
