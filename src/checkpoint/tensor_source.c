/* SPDX-License-Identifier: Apache-2.0 */
/* Finds tensors by name and reports what is wrong with them. */
#include "checkpoint/tensor_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const struct tensor_view *source_find(const struct tensor_source *s, const char *name)
{
    const struct tensor_view *t = checkpoint_find(s->ckpt, name);
    for (const struct name_alias *a = s->aliases; !t && a->official; a++) {
        size_t n = strlen(a->official);
        if (strncmp(name, a->official, n) != 0) continue;
        char other[SOURCE_MAX_NAME];
        snprintf(other, sizeof(other), "%s%s", a->other, name + n);
        t = checkpoint_find(s->ckpt, other);
    }
    return t;
}

const struct tensor_view *source_find_or_fail(const struct tensor_source *s, const char *name,
                                              ey_err *e)
{
    const struct tensor_view *t = source_find(s, name);
    if (!t)
        ey_fail(e, EY_BAD_MODEL, "%s: tensor %s is missing; the download may be incomplete",
                checkpoint_directory(s->ckpt), name);
    return t;
}

static void format_shape(char *out, size_t size, const int64_t *shape, int n)
{
    size_t used = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < n && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%" PRId64, i ? ", " : "", shape[i]);
    if (used < size) snprintf(out + used, size - used, "]");
}

bool check_view_shape(const struct tensor_view *t, const int64_t *dims, int n_dims, ey_err *e)
{
    if (t->n_dims == n_dims && memcmp(t->shape, dims, (size_t)n_dims * sizeof(dims[0])) == 0)
        return true;
    char has[128], wanted[128];
    format_shape(has, sizeof(has), t->shape, t->n_dims);
    format_shape(wanted, sizeof(wanted), dims, n_dims);
    const char *hint =
        n_dims == 5 && t->n_dims == 5
            ? " (is this a channels-last export by another program? use the original files)"
            : "";
    return ey_fail(e, EY_BAD_MODEL, "%s: tensor %s has shape %s, but config.json requires %s%s",
                   t->file, t->name, has, wanted, hint);
}

bool fail_view_dtype(const struct tensor_view *t, const char *wanted, ey_err *e)
{
    return ey_fail(e, EY_BAD_MODEL, "%s: tensor %s is stored as %s; it must be %s", t->file,
                   t->name, dtype_info(t->dtype)->label, wanted);
}
