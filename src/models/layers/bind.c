/* SPDX-License-Identifier: Apache-2.0 */
#include "models/layers/bind.h"

#include <stdarg.h>
#include <stdio.h>

bool bind_matrix(struct tensor_source *s, struct tensor *out, int64_t rows, int64_t cols, ey_err *e,
                 const char *name_fmt, ...)
{
    char name[SOURCE_MAX_NAME];
    va_list args;
    va_start(args, name_fmt);
    vsnprintf(name, sizeof(name), name_fmt, args);
    va_end(args);
    return source_matrix(s, out, name, rows, cols, e);
}

bool bind_vector(struct tensor_source *s, struct tensor *out, int64_t n, ey_err *e,
                 const char *name_fmt, ...)
{
    char name[SOURCE_MAX_NAME];
    va_list args;
    va_start(args, name_fmt);
    vsnprintf(name, sizeof(name), name_fmt, args);
    va_end(args);
    return source_plain(s, out, name, &n, 1, e);
}
