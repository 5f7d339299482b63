/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/weight_forms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/dequantize.h"

enum { BLOCK = 32, NVFP4_BLOCK = 64, MIDDLE_4 = 8, MIDDLE_8 = 128, VALUES_AT_ONCE = 1024 };

/* ---- exact narrowing ---- */

/* Converts to F16. Returns false if the value would change. */
static bool exact_f16(float value, uint16_t *out)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    const uint32_t sign = bits >> 16 & 0x8000;
    const int exponent = (int)(bits >> 23 & 255) - 127;
    const uint32_t mantissa = bits & 0x7fffff;
    if ((bits & 0x7fffffff) == 0) {
        *out = (uint16_t)sign;
    } else if (exponent >= -14 && exponent <= 15) {
        *out = (uint16_t)(sign | (uint32_t)(exponent + 15) << 10 | mantissa >> 13);
    } else if (exponent >= -24 && exponent < -14) {
        *out = (uint16_t)(sign | (mantissa | 0x800000) >> (-exponent - 1));
    } else {
        return false;
    }
    return f16_to_f32(*out) == value;
}

/* Like exact_f16(), for either 16-bit type. */
static bool exact_half(float value, enum dtype type, uint16_t *out)
{
    if (type == DTYPE_F16) return exact_f16(value, out);
    *out = f32_to_bf16(value);
    return bf16_to_f32(*out) == value;
}

static bool scale_as_f16(const struct tensor *w, int64_t row, int64_t group, uint16_t *out)
{
    return exact_f16(weight_group_scale(w, row, group), out);
}

/* ---- plans ---- */

static struct weight_plan plan_float32(const char *why)
{
    return (struct weight_plan){FORM_FLOAT32, DTYPE_F32, 0, 0, false, why};
}

static struct weight_plan plan_as_stored(const struct tensor *w)
{
    return (struct weight_plan){FORM_AS_STORED, w->dtype, 0, 0, false, NULL};
}

static bool is_plain_weight(const struct tensor *w)
{
    return dtype_info(w->dtype)->use == PLAIN_WEIGHT;
}

static bool has_int_codes(const struct tensor *w)
{
    return w->dtype == DTYPE_INT4 || w->dtype == DTYPE_UINT8;
}

static int middle_of(const struct tensor *w)
{
    return w->dtype == DTYPE_INT4 ? MIDDLE_4 : MIDDLE_8;
}

static bool all_zeros_in_middle(const struct tensor *w)
{
    for (int64_t row = 0; row < w->rows; row++)
        for (int64_t g = 0; g < weight_groups(w); g++)
            if (weight_group_zero(w, row, g) != middle_of(w)) return false;
    return true;
}

/* Whether all values fit the smaller type. */
static bool fits_type(const struct tensor *w, enum dtype type)
{
    float values[VALUES_AT_ONCE];
    uint16_t half;
    for (int64_t row = 0; row < w->rows; row++)
        for (int64_t at = 0, n; at < w->cols; at += n) {
            n = w->cols - at < VALUES_AT_ONCE ? w->cols - at : VALUES_AT_ONCE;
            dequantize_columns(values, w, row, at, (size_t)n);
            for (int64_t i = 0; i < n; i++)
                if (!exact_half(values[i], type, &half)) return false;
        }
    return true;
}

static struct weight_plan plan_narrowed(enum dtype type)
{
    return (struct weight_plan){FORM_NARROWED, type, 0, 0, false, NULL};
}

static struct weight_plan plan_codes(int bits, int group, bool has_zeros, enum dtype scales)
{
    return (struct weight_plan){FORM_CODES, scales, bits, group, has_zeros, NULL};
}

/* Plans the form of an integer matrix. */
static struct weight_plan plan_packed(const struct tensor *w)
{
    const int bits = w->dtype == DTYPE_INT4 ? 4 : 8;
    if (w->place)
        return plan_float32("its columns are grouped by activation (act-order), which "
                            "compressed-tensors no longer writes");
    if (w->cols % (32 / bits)) return plan_float32("its rows do not fill words of 32 bits");
    return plan_codes(bits, w->group_size, !all_zeros_in_middle(w),
                      w->scale_dtype ? w->scale_dtype : DTYPE_BF16);
}

static struct weight_plan plan_quantized(const struct tensor *w, bool linear)
{
    if (!linear) return plan_float32("transformers reads quantized weights only in linear layers");
    switch (w->dtype) {
    case DTYPE_Q8_0: return plan_codes(8, BLOCK, false, DTYPE_F16);
    case DTYPE_Q4_0: return plan_codes(4, BLOCK, false, DTYPE_F16);
    case DTYPE_GGUF_MXFP4: return (struct weight_plan){FORM_MXFP4, DTYPE_U8, 4, BLOCK, false, NULL};
    case DTYPE_INT4:
    case DTYPE_UINT8: return plan_packed(w);
    default: break;
    }
    return plan_float32("compressed-tensors has no format with its scales");
}

/* Programs that load the checkpoint convert all plain matrices to one type, `main_type`, so their
 * values must be exact in it. */
struct weight_plan plan_for_safetensors(const struct tensor *w, enum dtype main_type, bool linear)
{
    const bool has_half = main_type == DTYPE_BF16 || main_type == DTYPE_F16;
    struct weight_plan plan = plan_as_stored(w);
    if (!is_plain_weight(w)) plan = plan_quantized(w, linear);
    const bool widens = plan.why_lossy || w->dtype == DTYPE_F32;
    return widens && has_half && fits_type(w, main_type) ? plan_narrowed(main_type) : plan;
}

/* Returns whether all scales, and if `minima` is set all products -zero * scale, are exact in F16.
 */
static bool scales_are_f16(const struct tensor *w, bool minima)
{
    uint16_t half;
    for (int64_t row = 0; row < w->rows; row++)
        for (int64_t g = 0; g < weight_groups(w); g++) {
            if (!scale_as_f16(w, row, g, &half)) return false;
            const float zero = (float)weight_group_zero(w, row, g);
            if (minima && !exact_f16(-zero * weight_group_scale(w, row, g), &half)) return false;
        }
    return true;
}

static struct weight_plan plan_blocks(enum dtype type)
{
    return (struct weight_plan){FORM_BLOCKS, type, 0, 0, false, NULL};
}

static struct weight_plan plan_int_blocks(const struct tensor *w)
{
    if (w->place) return plan_float32("its columns are grouped by activation (act-order)");
    if (w->group_size % BLOCK) return plan_float32("its group size is not a multiple of 32");
    const bool symmetric = all_zeros_in_middle(w);
    if (!symmetric && w->dtype == DTYPE_UINT8)
        return plan_float32("GGUF has no 8-bit type with zero points");
    if (!scales_are_f16(w, !symmetric))
        return plan_float32(symmetric
                                ? "its scales are not exact in F16, GGUF's type for them"
                                : "its scales, or scale times zero point, are not exact in F16");
    if (w->dtype == DTYPE_UINT8) return plan_blocks(DTYPE_Q8_0);
    return plan_blocks(symmetric ? DTYPE_Q4_0 : DTYPE_Q4_1);
}

/* Returns NVFP4's global scale as a factor, or 0 if the file has a divisor whose reciprocal is not
 * exact. */
static float nvfp4_factor(const struct tensor *w)
{
    int exponent;
    if (w->multiplier != 0) return w->multiplier;
    if (w->divisor == 0) return 1;
    return frexpf(w->divisor, &exponent) == 0.5f ? 1 / w->divisor : 0;
}

static struct weight_plan plan_fp4_blocks(const struct tensor *w)
{
    const bool micro = w->scale_dtype == DTYPE_F8_E8M0 && w->group_size == BLOCK;
    if (micro && w->multiplier == 0 && w->divisor == 0) return plan_blocks(DTYPE_GGUF_MXFP4);
    if (w->scale_dtype != DTYPE_F8_E4M3 || w->group_size != 16 || w->cols % NVFP4_BLOCK)
        return plan_float32("its scales or groups are not those of GGUF's NVFP4");
    return nvfp4_factor(w) != 0
               ? plan_blocks(DTYPE_GGUF_NVFP4)
               : plan_float32("it divides by its global scale, where GGUF multiplies");
}

static struct weight_plan plan_gguf_type(const struct tensor *w)
{
    if (has_int_codes(w)) return plan_int_blocks(w);
    if (w->dtype == DTYPE_FP4) return plan_fp4_blocks(w);
    return plan_float32("GGUF has no type with 8-bit floating-point values, and not all of these "
                        "are exact in BF16 or F16 after scaling");
}

struct weight_plan plan_for_gguf(const struct tensor *w, bool is_matrix)
{
    if (!is_matrix && w->dtype != DTYPE_F32) return plan_float32(NULL);
    if (is_plain_weight(w)) return plan_as_stored(w);
    const struct weight_plan plan = plan_gguf_type(w);
    if (!plan.why_lossy) return plan;
    if (fits_type(w, DTYPE_BF16)) return plan_narrowed(DTYPE_BF16);
    return fits_type(w, DTYPE_F16) ? plan_narrowed(DTYPE_F16) : plan;
}

/* ---- conversion ---- */

static size_t row_bytes_of(enum dtype type, int64_t cols)
{
    const struct dtype_traits *t = dtype_info(type);
    return (size_t)cols / t->values * t->bytes;
}

static int64_t groups_of(const struct tensor *w, const struct weight_plan *plan)
{
    return w->cols / plan->group;
}

/* Returns the number of 32-bit words that the zero points of one column of groups take. */
static int64_t zero_words(const struct tensor *w, int bits)
{
    return (w->rows * bits + 31) / 32;
}

void formed_sizes(size_t out[FORM_PARTS], const struct tensor *w, const struct weight_plan *plan)
{
    const size_t rows = (size_t)w->rows, cols = (size_t)w->cols;
    memset(out, 0, FORM_PARTS * sizeof(*out));
    if (plan->form != FORM_CODES && plan->form != FORM_MXFP4) {
        out[0] = rows * row_bytes_of(plan->dtype, w->cols);
        return;
    }
    out[0] = rows * cols * (size_t)plan->bits / 8;
    out[1] = rows * (size_t)groups_of(w, plan) * dtype_size(plan->dtype);
    if (plan->has_zeros)
        out[2] = (size_t)(zero_words(w, plan->bits) * groups_of(w, plan)) * sizeof(uint32_t);
}

/* Unpacks a row's quantized values, one per byte. */
static void read_row_codes(uint8_t *out, const struct tensor *w, int64_t row)
{
    const uint8_t *from = (const uint8_t *)w->data + (size_t)row * weight_row_bytes(w);
    const size_t block = dtype_info(w->dtype)->bytes;
    for (int64_t c = 0; c < w->cols; c++) {
        const uint8_t *codes = from + (size_t)(c / BLOCK) * block;
        const int64_t at = c % BLOCK;
        switch (w->dtype) {
        case DTYPE_INT4:
        case DTYPE_FP4: out[c] = from[c / 2] >> c % 2 * 4 & 15; break;
        case DTYPE_UINT8: out[c] = from[c]; break;
        case DTYPE_Q8_0: out[c] = codes[2 + at] ^ 0x80; break;
        case DTYPE_Q4_0: out[c] = codes[2 + at % 16] >> at / 16 * 4 & 15; break;
        default: out[c] = codes[1 + at % 16] >> at / 16 * 4 & 15; break; /* MXFP4 */
        }
    }
}

static void pack_row(uint8_t *out, const uint8_t *codes, int64_t cols, int bits)
{
    if (bits == 8) {
        memcpy(out, codes, (size_t)cols);
        return;
    }
    for (int64_t c = 0; c < cols; c += 2)
        out[c / 2] = (uint8_t)(codes[c] | codes[c + 1] << 4);
}

/* Copies a row's scales. In GGUF blocks they are in front of the values. */
static void copy_row_scales(uint8_t *out, const struct tensor *w, const struct weight_plan *plan,
                            int64_t row)
{
    const size_t size = dtype_size(plan->dtype);
    const int64_t groups = groups_of(w, plan);
    if (!dtype_is_gguf(w->dtype)) {
        memcpy(out, (const uint8_t *)w->group_scale + (size_t)(row * groups) * size,
               (size_t)groups * size);
        return;
    }
    const uint8_t *from = (const uint8_t *)w->data + (size_t)row * weight_row_bytes(w);
    for (int64_t g = 0; g < groups; g++)
        memcpy(out + (size_t)g * size, from + (size_t)g * dtype_info(w->dtype)->bytes, size);
}

static void pack_zeros(uint8_t *out, const struct tensor *w, const struct weight_plan *plan)
{
    const int64_t groups = groups_of(w, plan), per = 32 / plan->bits;
    for (int64_t row = 0; row < w->rows; row++)
        for (int64_t g = 0; g < groups; g++) {
            uint8_t *at = out + (size_t)(row / per * groups + g) * sizeof(uint32_t);
            const int shift = (int)(row % per) * plan->bits, zero = weight_group_zero(w, row, g);
            at[shift / 8] |= (uint8_t)(zero << shift % 8);
        }
}

static void put_half(uint8_t *out, uint16_t half)
{
    out[0] = (uint8_t)half;
    out[1] = (uint8_t)(half >> 8);
}

/* Packs 2 * half values into `half` bytes: byte i has values i and i + half. */
static void put_nibbles(uint8_t *out, const uint8_t *codes, int half)
{
    for (int i = 0; i < half; i++)
        out[i] = (uint8_t)(codes[i] | codes[i + half] << 4);
}

static void put_block(uint8_t *out, const struct tensor *w, enum dtype type, int64_t row,
                      int64_t block, const uint8_t *codes)
{
    const int64_t group = block * BLOCK / w->group_size, groups = weight_groups(w);
    const uint8_t *scale = (const uint8_t *)w->group_scale + (size_t)(row * groups);
    uint16_t half = 0;
    if (type == DTYPE_GGUF_MXFP4) {
        out[0] = scale[group];
        put_nibbles(out + 1, codes, BLOCK / 2);
        return;
    }
    scale_as_f16(w, row, group, &half);
    put_half(out, half);
    if (type == DTYPE_Q8_0) {
        for (int i = 0; i < BLOCK; i++)
            out[2 + i] = codes[i] ^ 0x80;
        return;
    }
    if (type == DTYPE_Q4_1) {
        const float zero = (float)weight_group_zero(w, row, group);
        exact_f16(-zero * weight_group_scale(w, row, group), &half);
        put_half(out + 2, half);
    }
    put_nibbles(out + (type == DTYPE_Q4_1 ? 4 : 2), codes, BLOCK / 2);
}

static void put_nvfp4_block(uint8_t *out, const struct tensor *w, int64_t row, int64_t block,
                            const uint8_t *codes)
{
    const uint8_t *scale = (const uint8_t *)w->group_scale + (size_t)(row * weight_groups(w));
    memcpy(out, scale + 4 * block, 4);
    for (int g = 0; g < 4; g++)
        put_nibbles(out + 4 + 8 * g, codes + 16 * g, 8);
}

static void put_row_blocks(uint8_t *out, const struct tensor *w, enum dtype type, int64_t row,
                           const uint8_t *codes)
{
    const struct dtype_traits *t = dtype_info(type);
    for (int64_t b = 0; b < w->cols / t->values; b++) {
        uint8_t *to = out + (size_t)b * t->bytes;
        if (type == DTYPE_GGUF_NVFP4)
            put_nvfp4_block(to, w, row, b, codes + b * t->values);
        else
            put_block(to, w, type, row, b, codes + b * t->values);
    }
}

static void form_row(const struct formed_weight *f, const struct tensor *w,
                     const struct weight_plan *plan, int64_t row, uint8_t *codes, float *values)
{
    uint8_t *out = f->part[0] + (size_t)row * (f->size[0] / (size_t)w->rows);
    uint8_t *scales = f->part[1] + (size_t)row * (f->size[1] / (size_t)w->rows);
    switch (plan->form) {
    case FORM_AS_STORED:
        memcpy(out, (const uint8_t *)w->data + (size_t)row * weight_row_bytes(w),
               weight_row_bytes(w));
        break;
    case FORM_FLOAT32:
        dequantize_columns(values, w, row, 0, (size_t)w->cols);
        memcpy(out, values, (size_t)w->cols * sizeof(*values));
        break;
    case FORM_NARROWED:
        dequantize_columns(values, w, row, 0, (size_t)w->cols);
        for (int64_t c = 0; c < w->cols; c++) {
            uint16_t half = 0;
            exact_half(values[c], plan->dtype, &half);
            put_half(out + 2 * c, half);
        }
        break;
    case FORM_CODES:
    case FORM_MXFP4:
        read_row_codes(codes, w, row);
        pack_row(out, codes, w->cols, plan->bits);
        copy_row_scales(scales, w, plan, row);
        break;
    case FORM_BLOCKS:
        read_row_codes(codes, w, row);
        put_row_blocks(out, w, plan->dtype, row, codes);
        break;
    }
}

/* Makes a tensor of the converted parts, so that they can be dequantized. */
static struct tensor formed_tensor(const struct formed_weight *f, const struct tensor *w,
                                   const struct weight_plan *plan)
{
    struct tensor t = {.data = f->part[0], .dtype = plan->dtype, .rows = w->rows, .cols = w->cols};
    if (f->factor != 0) t.factor = &f->factor;
    if (plan->form != FORM_CODES && plan->form != FORM_MXFP4) return t;
    t.group_size = plan->group;
    t.group_scale = f->part[1];
    t.scale_dtype = plan->form == FORM_MXFP4 ? DTYPE_F8_E8M0 : plan->dtype;
    t.dtype = plan->form == FORM_MXFP4 ? DTYPE_FP4 : plan->bits == 4 ? DTYPE_INT4 : DTYPE_UINT8;
    return t;
}

/* Compares every value of the old and the new form, dequantized by the reference code. FORM_CODES
 * is not compared: zero points are packed differently in files than in memory, and tests check the
 * packing. */
static bool same_values(const struct formed_weight *f, const struct tensor *w,
                        const struct weight_plan *plan, float *was, float *is)
{
    const struct tensor t = formed_tensor(f, w, plan);
    if (plan->form == FORM_CODES) return true;
    for (int64_t row = 0; row < w->rows; row++) {
        dequantize_columns(was, w, row, 0, (size_t)w->cols);
        dequantize_columns(is, &t, row, 0, (size_t)w->cols);
        for (int64_t c = 0; c < w->cols; c++)
            if (!(was[c] == is[c])) return false;
    }
    return true;
}

static bool alloc_parts(struct formed_weight *out, const struct tensor *w,
                        const struct weight_plan *plan)
{
    formed_sizes(out->size, w, plan);
    for (int i = 0; i < FORM_PARTS; i++)
        if (out->size[i] && !(out->part[i] = calloc(1, out->size[i]))) return false;
    return true;
}

bool form_weight(struct formed_weight *out, const struct tensor *w, const struct weight_plan *plan,
                 bool *differs)
{
    const size_t cols = (size_t)w->cols;
    uint8_t *codes = malloc(cols);
    float *values = malloc(2 * cols * sizeof(*values));
    *out = (struct formed_weight){.factor = 0};
    *differs = false;
    bool ok = codes && values && alloc_parts(out, w, plan);
    if (ok && plan->dtype == DTYPE_GGUF_NVFP4) out->factor = nvfp4_factor(w);
    for (int64_t row = 0; ok && row < w->rows; row++)
        form_row(out, w, plan, row, codes, values);
    if (ok && plan->has_zeros) pack_zeros(out->part[2], w, plan);
    if (ok) *differs = !same_values(out, w, plan, values, values + cols);
    free(codes);
    free(values);
    return ok && !*differs;
}

void formed_weight_free(struct formed_weight *formed)
{
    for (int i = 0; i < FORM_PARTS; i++)
        free(formed->part[i]);
    *formed = (struct formed_weight){.factor = 0};
}
