/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint as a source of a model's tensors: found in any spelling of their names, with shape
 * and type checked and errors that name file and tensor. */
#ifndef EY_CHECKPOINT_TENSOR_SOURCE_H
#define EY_CHECKPOINT_TENSOR_SOURCE_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/quantization.h"

enum { SOURCE_MAX_NAME = 256 };

struct name_alias {
    const char *official, *other; /* prefixes */
};

struct tensor_source {
    const struct checkpoint *ckpt;
    struct arena *arena; /* for scales and zeros that the file does not have as they are needed */
    const struct name_alias
        *aliases;   /* tried in order when the official name is absent; ends with NULL */
    uint64_t bytes; /* of all that was read so far and is used where it lies */
    struct quantization quantization; /* what the configuration says of it */
};

/* The tensor by its official name or another spelling; NULL when absent. */
const struct tensor_view *source_find(const struct tensor_source *s, const char *name);
/* The same; absent is an error. */
const struct tensor_view *source_find_or_fail(const struct tensor_source *s, const char *name,
                                              ey_err *e);
bool check_view_shape(const struct tensor_view *t, const int64_t *dims, int n_dims, ey_err *e);
/* Returns false. `wanted`: the types that it may have, "F32 or BF16". */
bool fail_view_dtype(const struct tensor_view *t, const char *wanted, ey_err *e);

#endif
