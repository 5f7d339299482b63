/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/layout_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tensor/dequantize.h"

const struct tensor_view *find_beside(const struct tensor_source *s, const struct wanted_matrix *m,
                                      const char *suffix)
{
    char name[SOURCE_MAX_NAME];
    snprintf(name, sizeof(name), "%.200s%.40s", m->name, suffix);
    return source_find(s, name);
}

const struct tensor_view *find_module_part(const struct tensor_source *s,
                                           const struct wanted_matrix *m, const char *suffix)
{
    static const char weight[] = ".weight";
    char name[SOURCE_MAX_NAME];
    const size_t n = strlen(m->name), end = sizeof(weight) - 1;
    const bool ends = n > end && strcmp(m->name + n - end, weight) == 0;
    snprintf(name, sizeof(name), "%.*s%.40s",
             (int)(ends      ? n - end
                   : n > 200 ? 200
                             : n),
             m->name, suffix);
    return source_find(s, name);
}

const struct tensor_view *need_part(const struct tensor_source *s, const struct wanted_matrix *m,
                                    const char *suffix, const struct tensor_view *of, ey_err *e)
{
    const struct tensor_view *t = find_beside(s, m, suffix);
    if (!t)
        ey_fail(e, EY_BAD_MODEL,
                "%s: tensor %s%s is missing, but %s needs it; the download may be incomplete",
                checkpoint_directory(s->ckpt), m->name, suffix, of->name);
    return t;
}

int64_t view_elements(const struct tensor_view *t)
{
    const struct dtype_traits *type = dtype_info(t->dtype);
    return (int64_t)(t->size / type->bytes) * type->values;
}

bool is_all_zero(const struct tensor_view *t)
{
    return t->size == 0 || (t->data[0] == 0 && memcmp(t->data, t->data + 1, t->size - 1) == 0);
}

bool check_view_dtype(const struct tensor_view *t, enum dtype dtype, ey_err *e)
{
    return t->dtype == dtype || fail_view_dtype(t, dtype_info(dtype)->name, e);
}

bool check_float(const struct tensor_view *t, ey_err *e)
{
    return dtype_info(t->dtype)->use == PLAIN_WEIGHT || fail_view_dtype(t, "F32, BF16 or F16", e);
}

bool check_part(const struct tensor_view *t, enum dtype dtype, int64_t rows, int64_t cols,
                ey_err *e)
{
    const int64_t dims[2] = {rows, cols};
    return check_view_dtype(t, dtype, e) && check_view_shape(t, dims, 2, e);
}

bool check_scales(const struct tensor_view *t, bool *negative, ey_err *e)
{
    const size_t size = dtype_size(t->dtype), n = t->size / size;
    for (size_t i = 0; i < n; i++) {
        float value;
        elements_to_f32(&value, t->data + i * size, t->dtype, 1);
        if (!(fabsf(value) <= LARGEST_SCALE))
            return ey_fail(e, EY_BAD_MODEL,
                           "%s: value %zu of tensor %s is not a finite number of at most 2^119",
                           t->file, i, t->name);
        *negative = *negative || value < 0;
    }
    return true;
}

int group_of_scales(const struct tensor_source *s, const struct tensor_view *t,
                    const struct wanted_matrix *m, int64_t groups, ey_err *e)
{
    const int said = s->quantization.group;
    const int64_t group = groups > 0 && m->cols % groups == 0 ? m->cols / groups : 0,
                  wanted = said < 0 || said > m->cols ? m->cols : said;
    if (group && (!said || group == wanted)) return (int)group;
    ey_fail(e, EY_BAD_MODEL,
            "%s: tensor %s has %lld scales per row, which do not divide %lld columns into groups%s",
            t->file, t->name, (long long)groups, (long long)m->cols,
            group ? " of the size that config.json names" : " of equal size");
    return 0;
}
