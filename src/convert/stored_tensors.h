/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a checkpoint one by one, whichever layout they have: a matrix, or a plain tensor.
 */
#ifndef EY_STORED_TENSORS_H
#define EY_STORED_TENSORS_H

#include "convert/convert_model.h"

struct stored_tensor {
    char name[SOURCE_MAX_NAME];     /* the model's */
    const struct tensor_view *view; /* the one that it was found by */
    int64_t shape[EY_MAX_DIMS];
    int n_dims;
    bool is_matrix; /* of a linear layer, the embedding or the head */
};

struct stored_tensors {
    struct stored_tensor *tensor; /* [n] */
    size_t n;
};

/* In the order of their names. A tensor that belongs to no matrix that is known is an error. */
bool stored_tensors_list(struct stored_tensors *out, const struct convert_source *source,
                         ey_err *e);
void stored_tensors_free(struct stored_tensors *tensors);

/* One of them in memory, or mapped: rows in the model's order, codes in rows. */
struct loaded_tensor {
    struct tensor w;
    struct arena arena;
    void *memory;
};

bool stored_tensor_load(struct loaded_tensor *out, const struct convert_source *source,
                        const struct stored_tensor *tensor, ey_err *e);
void loaded_tensor_free(struct loaded_tensor *loaded);

#endif
