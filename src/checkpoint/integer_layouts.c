/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts of integer weights with scales and zero points: compressed-tensors' pack-quantized and
 * int-quantized, AutoAWQ, GPTQ and AutoRound. Most pack-quantized int4 is used in place; all else
 * is repacked while the model is loaded (repack.h). */
#include <inttypes.h>
#include <string.h>

#include "checkpoint/layout_parts.h"

/* ---- recipes ---- */

static bool use_recipe(struct tensor_source *s, struct tensor *out,
                       const struct stored_weight *stored, ey_err *e)
{
    struct weight_recipe *recipe = arena_alloc(s->arena, sizeof(*recipe));
    struct stored_weight *copy = arena_alloc(s->arena, sizeof(*copy));
    if (!recipe || !copy) return ey_fail_memory(e, "a weight's layout", sizeof(*copy));
    *copy = *stored;
    *recipe = (struct weight_recipe){.stored = copy};
    recipe->source.data = stored->codes->data;
    describe_repacked(out, recipe);
    return true;
}

/* ---- scales and the order of columns ---- */

/* Reads scales of shape [1], [rows] or [rows, groups]. */
static bool read_row_scales(struct stored_weight *w, const struct tensor_source *s,
                            const struct wanted_matrix *m, const struct tensor_view *t, ey_err *e)
{
    const int64_t rows[2] = {m->rows, t->n_dims == 2 ? t->shape[1] : 1};
    w->scale = t;
    if (!check_float(t, e)) return false;
    if (view_elements(t) == 1 && t->n_dims < 2) {
        w->group = (int)m->cols;
        return true;
    }
    if (!check_view_shape(t, rows, t->n_dims == 1 ? 1 : 2, e)) return false;
    w->scale_row_step = rows[1];
    w->scale_group_step = 1;
    return (w->group = group_of_scales(s, t, m, rows[1], e)) != 0;
}

/* Reads scales of shape [groups, rows] (AutoAWQ, GPTQ). */
static bool read_column_scales(struct stored_weight *w, const struct tensor_source *s,
                               const struct wanted_matrix *m, const struct tensor_view *t,
                               ey_err *e)
{
    const int64_t dims[2] = {t->n_dims == 2 ? t->shape[0] : 0, m->rows};
    w->scale = t;
    if (!check_float(t, e) || !check_view_shape(t, dims, 2, e)) return false;
    w->scale_row_step = 1;
    w->scale_group_step = m->rows;
    return (w->group = group_of_scales(s, t, m, dims[0], e)) != 0;
}

static int32_t order_at(const struct tensor_view *t, int64_t i)
{
    int32_t v;
    memcpy(&v, t->data + (size_t)i * sizeof(v), sizeof(v));
    return v;
}

/* Whether g_idx describes consecutive groups, or still has a -1 because it was never filled in. */
static bool is_usual_order(const struct tensor_view *t, const struct stored_weight *w)
{
    bool usual = true, unused = false;
    for (int64_t c = 0; c < w->cols; c++) {
        usual = usual && order_at(t, c) == (int32_t)(c / w->group);
        unused = unused || order_at(t, c) == -1;
    }
    return usual || unused;
}

static bool read_order(struct stored_weight *w, const struct tensor_view *t, ey_err *e)
{
    if (!t) return true;
    if (!check_view_dtype(t, DTYPE_I32, e) || !check_view_shape(t, &w->cols, 1, e)) return false;
    if (!is_usual_order(t, w)) w->order = t;
    return true;
}

/* ---- packed words ---- */

static int64_t stream_words(int64_t codes, int bits)
{
    return (codes * bits + 31) / 32;
}

static int64_t padded_words(int64_t codes, int bits)
{
    const int64_t per = 32 / bits;
    return (codes + per - 1) / per;
}

/* Infers the bit width from the number of words for `cols` values, among the widths that the
 * configuration names, or 4 and 8 if it names none. Returns 0 if none or several fit. */
static int bits_of_words(int64_t words, int64_t cols, unsigned named)
{
    int found = 0;
    for (int bits = 1; bits <= 8; bits++) {
        const bool fits = words == stream_words(cols, bits) || words == padded_words(cols, bits);
        if (!fits || !((named ? named : 1u << 4 | 1u << 8) >> bits & 1)) continue;
        if (found) return 0;
        found = bits;
    }
    return found;
}

/* Returns whether words are padded, so that no value crosses from one to the next. If padded and
 * dense values need the same number of words, assumes padding, the older form. */
static bool is_padded(int64_t words, int64_t codes, int bits)
{
    return words == padded_words(codes, bits);
}

static bool read_code_words(struct stored_weight *w, const struct tensor_source *s,
                            const struct tensor_view *t, ey_err *e)
{
    const int64_t dims[2] = {w->rows, stream_words(w->cols, 4)};
    if (!check_view_dtype(t, DTYPE_I32, e)) return false;
    if (t->n_dims != 2 || t->shape[0] != w->rows) return check_view_shape(t, dims, 2, e);
    w->codes = t;
    w->bits = bits_of_words(t->shape[1], w->cols, s->quantization.bits);
    if (!w->bits)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: tensor %s has shape [%" PRId64 ", %" PRId64 "]; for %" PRId64
                       " columns, none of the possible bit widths fits, or several do",
                       t->file, t->name, t->shape[0], t->shape[1], w->cols);
    w->padded = is_padded(t->shape[1], w->cols, w->bits);
    w->zero = 1 << (w->bits - 1);
    return true;
}

/* ---- pack-quantized ---- */

/* Checks the matrix's shape as the file states it. A sparse file, which stands for a model that is
 * not downloaded yet, states zeros; they are ignored. */
static bool check_stated_shape(const struct tensor_source *s, const struct wanted_matrix *m,
                               const struct tensor_view *scale, ey_err *e)
{
    const struct tensor_view *t = find_beside(s, m, "_shape");
    const int64_t two = 2;
    int64_t shape[2];
    if (!t) return true;
    if (!check_view_dtype(t, DTYPE_I64, e) || !check_view_shape(t, &two, 1, e)) return false;
    memcpy(shape, t->data, sizeof(shape));
    if (shape[0] == m->rows && shape[1] == m->cols) return true;
    if (is_all_zero(t) && is_all_zero(scale)) return true;
    return ey_fail(e, EY_BAD_MODEL,
                   "%s: tensor %s says the matrix is [%" PRId64 ", %" PRId64
                   "], but config.json requires [%" PRId64 ", %" PRId64 "]",
                   t->file, t->name, shape[0], shape[1], m->rows, m->cols);
}

static bool read_packed_zeros(struct stored_weight *w, const struct tensor_source *s,
                              const struct wanted_matrix *m, ey_err *e)
{
    const struct tensor_view *t = find_beside(s, m, "_zero_point");
    const int64_t groups = w->cols / w->group, words = w->padded ? padded_words(w->rows, w->bits)
                                                                 : stream_words(w->rows, w->bits);
    if (!t)
        return !s->quantization.asymmetric ||
               ey_fail(
                   e, EY_BAD_MODEL,
                   "%s: tensor %s has no %s_zero_point, but config.json says that the weights are "
                   "not symmetric; the download may be incomplete",
                   w->codes->file, w->codes->name, m->name);
    w->zeros = t;
    w->zero_layout = ZEROS_DOWN_ROWS;
    return check_part(t, DTYPE_I32, words, groups, e);
}

/* Whether kernels can read this layout in place. */
static bool is_usable_in_place(const struct stored_weight *w)
{
    return w->bits == 4 && !w->order && w->scale_row_step &&
           (w->group == 32 || w->group == 64 || w->group == 128);
}

/* Makes zero points for a symmetric checkpoint: all are the midpoint. */
static const void *default_zero_words(const struct tensor_source *s, size_t words, ey_err *e)
{
    uint32_t *zero = arena_array(s->arena, words, sizeof(*zero));
    if (!zero) ey_fail_memory(e, "zero points", words * sizeof(*zero));
    for (size_t i = 0; zero && i < words; i++)
        zero[i] = 0x88888888;
    return zero;
}

static bool use_in_place(struct tensor_source *s, struct tensor *out, const struct stored_weight *w,
                         ey_err *e)
{
    *out = (struct tensor){.data = w->codes->data,
                           .dtype = DTYPE_INT4,
                           .rows = w->rows,
                           .cols = w->cols,
                           .group_size = w->group,
                           .scale_dtype = w->scale->dtype,
                           .group_scale = w->scale->data};
    if (!check_scales(w->scale, &out->signed_scales, e)) return false;
    out->group_zero = w->zeros ? w->zeros->data
                               : default_zero_words(
                                     s, weight_group_zero_bytes(out) / sizeof(uint32_t), e);
    s->bytes += w->codes->size + w->scale->size + (w->zeros ? w->zeros->size : 0);
    return out->group_zero != NULL;
}

bool read_packed_integers(struct tensor_source *s, struct tensor *out,
                          const struct wanted_matrix *m, const struct tensor_view *packed,
                          ey_err *e)
{
    struct stored_weight w = {.layout = CODES_IN_ROWS, .rows = m->rows, .cols = m->cols};
    const struct tensor_view *scale = need_part(s, m, "_scale", packed, e);
    if (!scale || !read_code_words(&w, s, packed, e) || !read_row_scales(&w, s, m, scale, e) ||
        !check_stated_shape(s, m, scale, e) || !read_packed_zeros(&w, s, m, e) ||
        !read_order(&w, find_beside(s, m, "_g_idx"), e))
        return false;
    return is_usable_in_place(&w) ? use_in_place(s, out, &w, e) : use_recipe(s, out, &w, e);
}

/* ---- one byte per value ---- */

bool read_signed_bytes(struct tensor_source *s, struct tensor *out, const struct wanted_matrix *m,
                       const struct tensor_view *codes, ey_err *e)
{
    struct stored_weight w = {.layout = CODES_SIGNED,
                              .codes = codes,
                              .bits = 8,
                              .zero = 128,
                              .rows = m->rows,
                              .cols = m->cols};
    const struct tensor_view *scale = need_part(s, m, "_scale", codes, e),
                             *zeros = find_beside(s, m, "_zero_point");
    if (!scale || !read_row_scales(&w, s, m, scale, e)) return false;
    if (!zeros && s->quantization.asymmetric)
        return ey_fail(
            e, EY_BAD_MODEL,
            "%s: tensor %s has no zero points, but config.json says that the weights are "
            "not symmetric; the download may be incomplete",
            codes->file, codes->name);
    w.zeros = zeros;
    w.zero_layout = zeros ? ZEROS_SIGNED : ZEROS_DEFAULT;
    if (zeros && (!check_view_dtype(zeros, DTYPE_I8, e) ||
                  !check_view_shape(zeros, scale->shape, scale->n_dims, e)))
        return false;
    return use_recipe(s, out, &w, e);
}

/* ---- qweight ---- */

static bool has_shape(const struct tensor_view *t, int64_t rows, int64_t cols)
{
    return t->n_dims == 2 && t->shape[0] == rows && t->shape[1] == cols;
}

/* Infers GPTQ's bit width from the words per column. Returns 0 if the layout is not GPTQ's. */
static int gptq_bits(const struct tensor_view *t, const struct wanted_matrix *m, unsigned named)
{
    int found = 0;
    if (t->n_dims != 2 || t->shape[1] != m->rows) return 0;
    for (int bits = 2; bits <= 8; bits++) {
        const bool known = bits <= 4 || bits == 8;
        if (!known || t->shape[0] != stream_words(m->cols, bits)) continue;
        if (named && !(named >> bits & 1)) continue;
        if (found) return 0;
        found = bits;
    }
    return found;
}

static enum qweight_layout qweight_layout_of(const struct tensor_source *s,
                                             const struct wanted_matrix *m,
                                             const struct tensor_view *t,
                                             const struct tensor_view *scales)
{
    const enum qweight_layout said = s->quantization.qweight;
    const bool by_groups = scales->n_dims == 2 && scales->shape[1] == m->rows;
    if (said != QWEIGHT_BY_SHAPE) return said;
    if (has_shape(t, m->cols, m->rows / 8) && by_groups) return QWEIGHT_AWQ;
    return gptq_bits(t, m, s->quantization.bits) && by_groups ? QWEIGHT_GPTQ : QWEIGHT_AWQ_ROWS;
}

/* GPTQ has two versions, which store zero points differently. Returns whether all zero points are
 * midpoints in the form of the version that the configuration does not name. */
static bool is_other_version(const struct stored_weight *w)
{
    const uint32_t mask = w->bits == 2   ? 0xaaaaaaaa
                          : w->bits == 4 ? 0x88888888
                                         : 0x80808080,
                   ones = w->bits == 2   ? 0x55555555
                          : w->bits == 4 ? 0x11111111
                                         : 0x01010101,
                   other = w->zeros_less_one ? mask : mask - ones;
    if (w->bits == 3 || !w->zeros->size) return false;
    for (size_t i = 0; i < w->zeros->size; i += sizeof(uint32_t)) {
        uint32_t word;
        memcpy(&word, w->zeros->data + i, sizeof(word));
        if (word != other) return false;
    }
    return true;
}

static bool fail_no_qzeros(const struct stored_weight *w, ey_err *e)
{
    return ey_fail(e, EY_BAD_MODEL, "%s: tensor %s has no qzeros; the download may be incomplete",
                   w->codes->file, w->codes->name);
}

/* Reads zero points; without any, all are the midpoint. Their absence is an error for GPTQ unless
 * the configuration declares symmetric weights, for AWQ only if it declares asymmetric ones. */
static bool read_group_zeros(struct stored_weight *w, const struct tensor_source *s,
                             const struct wanted_matrix *m, enum zero_layout layout, ey_err *e)
{
    const struct tensor_view *t = find_module_part(s, m, ".qzeros");
    const int64_t groups = w->cols / w->group;
    if (!t)
        return (layout == ZEROS_AWQ ? !s->quantization.asymmetric : s->quantization.symmetric) ||
               fail_no_qzeros(w, e);
    w->zeros = t;
    w->zero_layout = layout;
    if (!check_part(t, DTYPE_I32, groups, stream_words(w->rows, w->bits), e)) return false;
    if (layout != ZEROS_OF_GROUPS) return true;
    w->zeros_less_one = s->quantization.zeros_less_one;
    if (s->quantization.symmetric && is_other_version(w)) w->zeros_less_one = !w->zeros_less_one;
    return true;
}

static bool read_gptq(struct stored_weight *w, const struct tensor_source *s,
                      const struct wanted_matrix *m, const struct tensor_view *scales, ey_err *e)
{
    const struct tensor_view *t = w->codes;
    w->layout = CODES_IN_COLUMNS;
    w->bits = gptq_bits(t, m, s->quantization.bits);
    if (!w->bits)
        return ey_fail(
            e, EY_BAD_MODEL,
            "%s: the shape of tensor %s is not the one that GPTQ uses for a matrix of [%" PRId64
            ", %" PRId64 "] at 2, 3, 4 or 8 bits, or at the bit width of config.json",
            t->file, t->name, m->rows, m->cols);
    w->zero = 1 << (w->bits - 1);
    return read_column_scales(w, s, m, scales, e) &&
           read_group_zeros(w, s, m, ZEROS_OF_GROUPS, e) &&
           read_order(w, find_module_part(s, m, ".g_idx"), e);
}

static bool read_awq(struct stored_weight *w, const struct tensor_source *s,
                     const struct wanted_matrix *m, const struct tensor_view *scales, ey_err *e)
{
    if (m->rows % 8)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: tensor %s packs eight rows into a word, but the matrix has %lld rows",
                       w->codes->file, w->codes->name, (long long)m->rows);
    w->layout = CODES_AWQ;
    return check_part(w->codes, DTYPE_I32, m->cols, m->rows / 8, e) &&
           read_column_scales(w, s, m, scales, e) && read_group_zeros(w, s, m, ZEROS_AWQ, e);
}

/* Reads AutoAWQ's "gemv" version, which stores values in rows and pads the number of groups to a
 * multiple of 8, of 16 for groups of 64 columns, or of 32 for smaller groups. */
static bool read_awq_rows(struct stored_weight *w, const struct tensor_source *s,
                          const struct wanted_matrix *m, const struct tensor_view *scales,
                          ey_err *e)
{
    const int64_t group = s->quantization.group > 0 ? s->quantization.group : m->cols;
    if (m->cols % group || m->cols % 8)
        return ey_fail(
            e, EY_BAD_MODEL,
            "%s: tensor %s: %lld columns are not a multiple of 8 and of the group size %lld",
            w->codes->file, w->codes->name, (long long)m->cols, (long long)group);
    const int64_t groups = m->cols / group,
                  each = group >= 128  ? 1
                         : group == 64 ? 2
                                       : 4,
                  words = ((groups + 7) / 8 + each - 1) / each * each,
                  dims[2] = {m->rows, 8 * words};
    w->layout = CODES_IN_ROWS;
    w->group = (int)group;
    w->scale = scales;
    w->scale_row_step = 8 * words;
    w->scale_group_step = 1;
    w->zeros = find_module_part(s, m, ".qzeros");
    w->zero_layout = w->zeros ? ZEROS_OF_ROWS : ZEROS_DEFAULT;
    if (!w->zeros && s->quantization.asymmetric) return fail_no_qzeros(w, e);
    return check_part(w->codes, DTYPE_I32, m->rows, m->cols / 8, e) && check_float(scales, e) &&
           check_view_shape(scales, dims, 2, e) &&
           (!w->zeros || check_part(w->zeros, DTYPE_I32, m->rows, words, e));
}

bool read_qweight(struct tensor_source *s, struct tensor *out, const struct wanted_matrix *m,
                  const struct tensor_view *qweight, ey_err *e)
{
    struct stored_weight w = {
        .codes = qweight, .bits = 4, .zero = 8, .rows = m->rows, .cols = m->cols};
    const struct tensor_view *scales = find_module_part(s, m, ".scales");
    if (!check_view_dtype(qweight, DTYPE_I32, e)) return false;
    if (!scales)
        return ey_fail(e, EY_BAD_MODEL,
                       "%s: tensor %s has no scales; the download may be incomplete", qweight->file,
                       qweight->name);
    const enum qweight_layout layout = qweight_layout_of(s, m, qweight, scales);
    const bool ok = layout == QWEIGHT_GPTQ  ? read_gptq(&w, s, m, scales, e)
                    : layout == QWEIGHT_AWQ ? read_awq(&w, s, m, scales, e)
                                            : read_awq_rows(&w, s, m, scales, e);
    return ok && use_recipe(s, out, &w, e);
}
