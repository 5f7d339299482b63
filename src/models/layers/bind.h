/* SPDX-License-Identifier: Apache-2.0 */
/* Binds weights by printf-formatted tensor names. */
#ifndef EY_MODELS_BIND_H
#define EY_MODELS_BIND_H

#include "checkpoint/quantized_layouts.h"

/* Binds a matrix [rows, cols] in any layout. */
bool bind_matrix(struct tensor_source *s, struct tensor *out, int64_t rows, int64_t cols, ey_err *e,
                 const char *name_fmt, ...) __attribute__((format(printf, 6, 7)));
/* Binds a vector [n] in BF16, F16 or F32. */
bool bind_vector(struct tensor_source *s, struct tensor *out, int64_t n, ey_err *e,
                 const char *name_fmt, ...) __attribute__((format(printf, 5, 6)));

#endif
