/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up a model's tensors in a checkpoint by any known spelling of their names, and checks shape
 * and dtype. Errors name the file and the tensor. */
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
    struct arena
        *arena; /* for scales, zero points and rows that the file lacks or stores in another form */
    const struct name_alias
        *aliases;   /* prefixes tried in order if the official name is absent; ends with NULL */
    uint64_t bytes; /* size of the tensors read so far, without those that are repacked */
    struct quantization quantization; /* from the configuration */
};

/* Finds a tensor by its official name or an alias. Returns NULL if it is absent. */
const struct tensor_view *source_find(const struct tensor_source *s, const char *name);
/* Like source_find(), but an absent tensor is an error. */
const struct tensor_view *source_find_or_fail(const struct tensor_source *s, const char *name,
                                              ey_err *e);
bool check_view_shape(const struct tensor_view *t, const int64_t *dims, int n_dims, ey_err *e);
/* Fails, naming the accepted dtypes ("F32 or BF16"). Returns false. */
bool fail_view_dtype(const struct tensor_view *t, const char *wanted, ey_err *e);

#endif
