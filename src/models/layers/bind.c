/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of a checkpoint → weights of a model. */
#include "models/layers/bind.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tensor/dequantize.h"

enum { BIND_MAX_NAME = 256 };

const struct tensor_view *bind_find(const struct binder *b, const char *name)
{
    const struct tensor_view *t = checkpoint_find(b->ckpt, name);
    for (const struct name_alias *a = b->aliases; !t && a->official; a++) {
        size_t n = strlen(a->official);
        if (strncmp(name, a->official, n) != 0) continue;
        char other[BIND_MAX_NAME];
        snprintf(other, sizeof(other), "%s%s", a->other, name + n);
        t = checkpoint_find(b->ckpt, other);
    }
    return t;
}

static void format_shape(char *out, size_t size, const int64_t *shape, int n)
{
    size_t used = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < n && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%" PRId64, i ? ", " : "", shape[i]);
    if (used < size) snprintf(out + used, size - used, "]");
}

static bool shape_matches(const struct tensor_view *t, const int64_t *dims, int n_dims, ey_err *e)
{
    if (t->n_dims == n_dims && memcmp(t->shape, dims, (size_t)n_dims * sizeof(dims[0])) == 0)
        return true;
    char has[128], wanted[128];
    format_shape(has, sizeof(has), t->shape, t->n_dims);
    format_shape(wanted, sizeof(wanted), dims, n_dims);
    const char *hint = n_dims == 5 && t->n_dims == 5
                           ? " (a channel-last export of another program? take the original files)"
                           : "";
    return ey_fail(e, EY_BAD_MODEL, "%s: tensor %s has shape %s; config.json makes it %s%s",
                   t->file, t->name, has, wanted, hint);
}

static bool is_plain_float(enum dtype d)
{
    return dtype_info(d)->use == PLAIN_WEIGHT;
}

static bool fail_dtype(const struct tensor_view *t, const char *wanted, ey_err *e)
{
    return ey_fail(e, EY_BAD_MODEL, "%s: tensor %s is stored as %s; it must be %s", t->file,
                   t->name, dtype_info(t->dtype)->name, wanted);
}

static const struct tensor_view *find_or_fail(const struct binder *b, const char *name, ey_err *e)
{
    const struct tensor_view *t = bind_find(b, name);
    if (!t)
        ey_fail(e, EY_BAD_MODEL, "%s: tensor %s is missing; the download may be incomplete",
                checkpoint_directory(b->ckpt), name);
    return t;
}

/* Scales of any float type as float32 in the arena. */
static bool bind_scale(struct binder *b, struct tensor *w, const char *name, ey_err *e)
{
    char scale_name[BIND_MAX_NAME];
    snprintf(scale_name, sizeof(scale_name), "%s_scale_inv", name);
    const struct tensor_view *t = bind_find(b, scale_name);
    if (!t)
        return ey_fail(e, EY_BAD_MODEL, "%s: tensor %s is F8_E4M3 but its scales %s are missing",
                       checkpoint_directory(b->ckpt), name, scale_name);
    int64_t dims[2] = {(w->rows + FP8_BLOCK - 1) / FP8_BLOCK,
                       (w->cols + FP8_BLOCK - 1) / FP8_BLOCK};
    if (!shape_matches(t, dims, 2, e)) return false;
    if (!is_plain_float(t->dtype)) return fail_dtype(t, "F32, BF16 or F16", e);
    size_t n = (size_t)dims[0] * (size_t)dims[1];
    float *scale = arena_array(b->arena, n, sizeof(float));
    if (!scale) return ey_fail_memory(e, "weight scales", n * sizeof(float));
    elements_to_f32(scale, t->data, t->dtype, n);
    w->scale = scale;
    b->bytes += t->size;
    return true;
}

/* ---- four bits: pack-quantized, of compressed-tensors (docs/guides/quantization.md) ---- */

/* NAME_part of that shape and dtype; *out stays NULL where it is absent and need not be there. */
static bool find_int4_tensor(const struct binder *b, const struct tensor_view **out,
                             const char *name, const char *suffix, enum dtype dtype, int64_t rows,
                             int64_t cols, bool needed, ey_err *e)
{
    char full[BIND_MAX_NAME];
    const int64_t dims[2] = {rows, cols};
    snprintf(full, sizeof(full), "%.200s_%.40s", name, suffix);
    *out = needed ? find_or_fail(b, full, e) : bind_find(b, full);
    if (!*out) return !needed;
    if ((*out)->dtype != dtype) return fail_dtype(*out, dtype_info(dtype)->name, e);
    return shape_matches(*out, dims, 2, e);
}

/* From the number of scales in a row. */
static bool find_int4_group(const struct binder *b, int *group, const char *name, int64_t cols,
                            ey_err *e)
{
    char full[BIND_MAX_NAME];
    snprintf(full, sizeof(full), "%.200s_scale", name);
    const struct tensor_view *t = find_or_fail(b, full, e);
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
static const void *default_zero_points(const struct binder *b, size_t words)
{
    uint32_t *zero = arena_array(b->arena, words, sizeof(*zero));
    for (size_t i = 0; zero && i < words; i++)
        zero[i] = 0x88888888;
    return zero;
}

static bool bind_int4(struct binder *b, struct tensor *out, const char *name, int64_t rows,
                      int64_t cols, ey_err *e)
{
    const struct tensor_view *packed, *scale, *zero;
    char g_idx[BIND_MAX_NAME];
    int group;
    if (!find_int4_group(b, &group, name, cols, e)) return false;
    const int64_t groups = cols / group;
    if (!find_int4_tensor(b, &packed, name, "packed", DTYPE_I32, rows, cols / 8, true, e) ||
        !find_int4_tensor(b, &scale, name, "scale", DTYPE_BF16, rows, groups, true, e) ||
        !find_int4_tensor(b, &zero, name, "zero_point", DTYPE_I32, (rows + 7) / 8, groups, false,
                          e) ||
        !check_int4_scales(scale, e))
        return false;
    snprintf(g_idx, sizeof(g_idx), "%.200s_g_idx", name);
    if (bind_find(b, g_idx))
        return ey_fail(e, EY_BAD_MODEL, "%s: tensor %s: columns in another order are not supported",
                       packed->file, g_idx);
    *out = (struct tensor){.data = packed->data,
                           .dtype = DTYPE_INT4,
                           .rows = rows,
                           .cols = cols,
                           .group_size = group,
                           .group_scale = scale->data};
    out->group_zero = zero ? zero->data : default_zero_points(b, (size_t)((rows + 7) / 8 * groups));
    b->bytes += packed->size + scale->size + (zero ? zero->size : 0);
    return out->group_zero ||
           ey_fail_memory(e, "zeros", (size_t)((rows + 7) / 8 * groups) * sizeof(uint32_t));
}

static bool has_int4_tensors(const struct binder *b, const char *name)
{
    char packed[BIND_MAX_NAME];
    snprintf(packed, sizeof(packed), "%.200s_packed", name);
    return bind_find(b, packed) && !bind_find(b, name);
}

static bool bind_view(struct binder *b, struct tensor *out, const char *name, const int64_t *dims,
                      int n_dims, ey_err *e)
{
    const struct tensor_view *t = find_or_fail(b, name, e);
    if (!t || !shape_matches(t, dims, n_dims, e)) return false;
    int64_t cols = 1;
    for (int i = n_dims == 1 ? 0 : 1; i < n_dims; i++)
        cols *= dims[i];
    *out = (struct tensor){
        .data = t->data, .dtype = t->dtype, .rows = n_dims == 1 ? 1 : dims[0], .cols = cols};
    b->bytes += t->size;
    if (t->dtype == DTYPE_F8_E4M3 && n_dims == 2) return bind_scale(b, out, name, e);
    return is_plain_float(t->dtype) ||
           fail_dtype(t, n_dims == 2 ? "BF16, F16, F32 or F8_E4M3" : "BF16, F16 or F32", e);
}

bool bind_matrix(struct binder *b, struct tensor *out, int64_t rows, int64_t cols, ey_err *e,
                 const char *name_fmt, ...)
{
    char name[BIND_MAX_NAME];
    va_list args;
    va_start(args, name_fmt);
    vsnprintf(name, sizeof(name), name_fmt, args);
    va_end(args);
    return has_int4_tensors(b, name) ? bind_int4(b, out, name, rows, cols, e)
                                     : bind_view(b, out, name, (int64_t[]){rows, cols}, 2, e);
}

bool bind_vector(struct binder *b, struct tensor *out, int64_t n, ey_err *e, const char *name_fmt,
                 ...)
{
    char name[BIND_MAX_NAME];
    va_list args;
    va_start(args, name_fmt);
    vsnprintf(name, sizeof(name), name_fmt, args);
    va_end(args);
    return bind_view(b, out, name, &n, 1, e);
}

bool bind_folded(struct binder *b, struct tensor *out, const int64_t *dims, int n_dims, ey_err *e,
                 const char *name)
{
    return bind_view(b, out, name, dims, n_dims, e);
}

bool bind_rows(struct tensor *out, const struct tensor *whole, int64_t first, int64_t rows,
               ey_err *e)
{
    const int64_t block = whole->scale ? FP8_BLOCK : whole->group_size ? ZEROS_PER_WORD : 1;
    if (first % block)
        return ey_fail(e, EY_BAD_MODEL,
                       "a part of a fused quantized matrix begins at row %" PRId64
                       ", inside a block of %" PRId64,
                       first, block);
    *out = *whole;
    out->data = (const uint8_t *)whole->data + (size_t)first * weight_row_bytes(whole);
    out->rows = rows;
    if (whole->scale)
        out->scale = whole->scale +
                     (first / FP8_BLOCK) * ((whole->cols + FP8_BLOCK - 1) / FP8_BLOCK);
    if (!whole->group_size) return true;
    out->group_scale = (const uint8_t *)whole->group_scale +
                       first * weight_groups(whole) * (int64_t)sizeof(uint16_t);
    out->group_zero = (const uint8_t *)whole->group_zero +
                      first / ZEROS_PER_WORD * weight_groups(whole) * (int64_t)sizeof(uint32_t);
    return true;
}
