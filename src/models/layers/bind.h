/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of a checkpoint → weights of a model: names found in any of their spellings, dtype and
 * shape checked, block scales converted. */
#ifndef EY_MODELS_BIND_H
#define EY_MODELS_BIND_H

#include "models/model.h"

struct name_alias {
    const char *official, *other; /* prefixes */
};

struct binder {
    const struct checkpoint *ckpt;
    struct arena *arena;
    const struct name_alias
        *aliases;   /* tried in order when the official name is absent; ends with NULL */
    uint64_t bytes; /* of everything bound so far */
};

/* The tensor by its official name or another spelling; NULL when absent. */
const struct tensor_view *bind_find(const struct binder *b, const char *name);

/* A matrix [rows, cols]: BF16, F16, F32, or F8_E4M3 with `NAME_scale_inv` [ceil(rows/128),
 * ceil(cols/128)], or int4 as `NAME_packed` I32 [rows, cols/8] with `NAME_scale` BF16 [rows,
 * cols/group] and, unless all zeros are 8, `NAME_zero_point` I32 [ceil(rows/8), cols/group]. */
bool bind_matrix(struct binder *b, struct tensor *out, int64_t rows, int64_t cols, ey_err *e,
                 const char *name_fmt, ...) __attribute__((format(printf, 6, 7)));
/* A vector [n]: BF16, F16 or F32. */
bool bind_vector(struct binder *b, struct tensor *out, int64_t n, ey_err *e, const char *name_fmt,
                 ...) __attribute__((format(printf, 5, 6)));
/* The same as a matrix for a tensor of more dimensions: dims[0] rows, the product of the others
 * columns. */
bool bind_folded(struct binder *b, struct tensor *out, const int64_t *dims, int n_dims, ey_err *e,
                 const char *name);
/* Rows first .. first+rows-1 of a matrix that was bound whole. Of a quantized one, `first` must
 * begin a block: of 128 rows, or of the 8 whose zeros are packed. */
bool bind_rows(struct tensor *out, const struct tensor *whole, int64_t first, int64_t rows,
               ey_err *e);

#endif
