/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the layouts of FP8 and FP4 weights: FP8 with a scale per block of 128 x 128, per row or per
 * tensor; MXFP8; MXFP4; and NVFP4 as compressed-tensors and ModelOpt write it. */
#include <math.h>
#include <string.h>

#include "checkpoint/layout_parts.h"
#include "tensor/dequantize.h"

enum { MX_GROUP = 32, NVFP4_GROUP = 16 };

/* ---- FP8 ---- */

/* Returns whether the shape is [ceil(rows/128), ceil(cols/128)], or ModelOpt's form of it, which
 * has a 1 after each dimension. */
static bool is_block_shape(const struct tensor_view *t, const struct wanted_matrix *m)
{
    const int64_t dims[2] = {fp8_blocks(m->rows), fp8_blocks(m->cols)};
    if (t->n_dims == 2) return memcmp(t->shape, dims, sizeof(dims)) == 0;
    return t->n_dims == 4 && t->shape[0] == dims[0] && t->shape[1] == 1 && t->shape[2] == dims[1] &&
           t->shape[3] == 1;
}

static bool is_row_shape(const struct tensor_view *t, const struct wanted_matrix *m)
{
    return (t->n_dims == 1 || (t->n_dims == 2 && t->shape[1] == 1)) && t->shape[0] == m->rows;
}

static float *arena_floats(struct tensor_source *s, size_t n, ey_err *e)
{
    float *p = arena_array(s->arena, n, sizeof(float));
    if (!p) ey_fail_memory(e, "weight scales", n * sizeof(float));
    return p;
}

/* Makes a table of block scales that all have one value. It has an extra row of blocks because a
 * slice may begin at any row. */
static float *equal_block_scales(struct tensor_source *s, const struct wanted_matrix *m,
                                 float value, ey_err *e)
{
    const size_t n = (size_t)((fp8_blocks(m->rows) + 1) * fp8_blocks(m->cols));
    float *scale = arena_floats(s, n, e);
    for (size_t i = 0; scale && i < n; i++)
        scale[i] = value;
    return scale;
}

static bool read_fp8_scales(struct tensor_source *s, struct tensor *w,
                            const struct wanted_matrix *m, const struct tensor_view *t, ey_err *e)
{
    const size_t n = (size_t)view_elements(t);
    bool negative = false;
    float *scale;
    if (!check_float(t, e) || !check_scales(t, &negative, e)) return false;
    if (n == 1 && t->n_dims < 2) {
        float value;
        elements_to_f32(&value, t->data, t->dtype, 1);
        return (w->scale = equal_block_scales(s, m, value, e)) != NULL;
    }
    const bool rows = !is_block_shape(t, m) && is_row_shape(t, m);
    if (!rows && !is_block_shape(t, m)) {
        const int64_t dims[2] = {fp8_blocks(m->rows), fp8_blocks(m->cols)};
        return check_view_shape(t, dims, 2, e);
    }
    if (!(scale = arena_floats(s, n, e))) return false;
    elements_to_f32(scale, t->data, t->dtype, n);
    w->scale = rows ? equal_block_scales(s, m, 1, e) : scale;
    w->row_scale = rows ? scale : NULL;
    return w->scale != NULL;
}

/* Fails unless all exponents are at most `largest`, so that values times 2^(e - 127) are finite. */
static bool check_exponents(const struct tensor_view *t, int largest, ey_err *e)
{
    for (size_t i = 0; i < t->size; i++)
        if (t->data[i] > largest)
            return ey_fail(
                e, EY_BAD_MODEL,
                "%s: value %zu of tensor %s is the exponent %d; weights are finite only up to "
                "exponent %d",
                t->file, i, t->name, t->data[i], largest);
    return true;
}

static bool read_exponent_scales(struct tensor_source *s, struct tensor *out,
                                 const struct wanted_matrix *m, const struct tensor_view *t,
                                 int largest, ey_err *e)
{
    const int64_t dims[2] = {m->rows, m->cols / MX_GROUP};
    if (m->cols % MX_GROUP)
        return ey_fail(
            e, EY_BAD_MODEL,
            "%s: tensor %s has one scale per 32 columns, but the matrix has %lld columns", t->file,
            t->name, (long long)m->cols);
    if (!check_view_shape(t, dims, 2, e) || !check_exponents(t, largest, e)) return false;
    out->group_size = MX_GROUP;
    out->group_scale = t->data;
    out->scale_dtype = DTYPE_F8_E8M0;
    s->bytes += t->size;
    return true;
}

static bool is_exponents(const struct tensor_view *t)
{
    return t->dtype == DTYPE_U8 || t->dtype == DTYPE_F8_E8M0;
}

bool read_fp8(struct tensor_source *s, struct tensor *out, const struct wanted_matrix *m,
              const struct tensor_view *codes, ey_err *e)
{
    enum { LARGEST_EXPONENT = 246 };
    const struct tensor_view *t = find_beside(s, m, "_scale_inv");
    *out = (struct tensor){
        .data = codes->data, .dtype = DTYPE_F8_E4M3, .rows = m->rows, .cols = m->cols};
    s->bytes += codes->size;
    if (!t) t = find_beside(s, m, "_scale");
    if (!t)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: tensor %s is F8_E4M3 but its scales %s_scale_inv or _scale are missing",
                       checkpoint_directory(s->ckpt), m->name, m->name);
    if (is_exponents(t) && !find_beside(s, m, "_scale_inv")) {
        out->dtype = DTYPE_MXFP8;
        return read_exponent_scales(s, out, m, t, LARGEST_EXPONENT, e);
    }
    if (!read_fp8_scales(s, out, m, t, e)) return false;
    s->bytes += t->size;
    return true;
}

/* ---- FP4 ---- */

/* Reads the global scale. compressed-tensors divides by it, ModelOpt multiplies by it. If the two
 * were confused, the largest weight would be absurd, so that weight is checked. A sparse file,
 * which stands for a model that is not downloaded yet, has only zeros and is not checked. A divisor
 * of 0 is accepted only if the quantized values are 0 too, since nothing can be divided by 0. */
static bool read_global_scale(struct tensor_source *s, struct tensor *out,
                              const struct tensor_view *t, const struct tensor_view *scales,
                              const struct tensor_view *codes, bool divides, ey_err *e)
{
    enum { LARGEST_CODE = 6 * 448 };
    float value;
    if (view_elements(t) != 1)
        return ey_fail(e, EY_BAD_MODEL, "%s: tensor %s has %lld numbers; it must have exactly one",
                       t->file, t->name, (long long)view_elements(t));
    if (!check_view_dtype(t, DTYPE_F32, e)) return false;
    memcpy(&value, t->data, sizeof(value));
    const float largest = divides ? LARGEST_CODE / value : LARGEST_CODE * value;
    const bool holes = value == 0 && is_all_zero(scales) && (!divides || is_all_zero(codes));
    if (!holes && !(largest >= 1e-6f && largest <= 1e4f))
        return ey_fail(
            e, EY_BAD_MODEL,
            "%s: tensor %s is %g, so the largest weight would be %g if weights are %s by "
            "it, as in the files of %s",
            t->file, t->name, (double)value, (double)largest, divides ? "divided" : "multiplied",
            divides ? "compressed-tensors" : "ModelOpt");
    *(divides ? &out->divisor : &out->multiplier) = value;
    s->bytes += t->size;
    return true;
}

/* Fails unless all block scales are finite and not negative. */
static bool check_block_scales(const struct tensor_view *t, ey_err *e)
{
    for (size_t i = 0; i < t->size; i++)
        if (t->data[i] >= 0x7f && t->data[i] != 0x80)
            return ey_fail(e, EY_BAD_MODEL,
                           "%s: value %zu of tensor %s is negative or NaN (0x%02x)", t->file, i,
                           t->name, t->data[i]);
    return true;
}

static bool read_nvfp4_scales(struct tensor_source *s, struct tensor *out,
                              const struct wanted_matrix *m, const struct tensor_view *t,
                              const struct tensor_view *codes, ey_err *e)
{
    const struct tensor_view *divisor = find_beside(s, m, "_global_scale"),
                             *factor = find_beside(s, m, "_scale_2");
    if (!check_part(t, DTYPE_F8_E4M3, m->rows, m->cols / NVFP4_GROUP, e) ||
        !check_block_scales(t, e))
        return false;
    if (!divisor == !factor)
        return ey_fail(
            e, EY_BAD_MODEL,
            "%s: tensor %s has %s %s_global_scale %s _scale_2; it needs exactly one of them",
            t->file, t->name, divisor ? "both" : "neither", m->name, divisor ? "and" : "nor");
    out->group_size = NVFP4_GROUP;
    out->group_scale = t->data;
    out->scale_dtype = DTYPE_F8_E4M3;
    s->bytes += t->size;
    return read_global_scale(s, out, divisor ? divisor : factor, t, codes, divisor != NULL, e);
}

bool read_fp4(struct tensor_source *s, struct tensor *out, const struct wanted_matrix *m,
              const struct tensor_view *codes, ey_err *e)
{
    enum { LARGEST_EXPONENT = 252 };
    const struct tensor_view *t = need_part(s, m, "_scale", codes, e);
    if (!t) return false;
    *out = (struct tensor){
        .data = codes->data, .dtype = DTYPE_FP4, .rows = m->rows, .cols = m->cols};
    if (m->cols % NVFP4_GROUP)
        return ey_fail(
            e, EY_BAD_MODEL,
            "%s: tensor %s has one scale per 16 columns, but the matrix has %lld columns", t->file,
            t->name, (long long)m->cols);
    if (!check_part(codes, DTYPE_U8, m->rows, m->cols / 2, e)) return false;
    s->bytes += codes->size;
    return is_exponents(t) ? read_exponent_scales(s, out, m, t, LARGEST_EXPONENT, e)
                           : read_nvfp4_scales(s, out, m, t, codes, e);
}
