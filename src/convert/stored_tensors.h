/* SPDX-License-Identifier: Apache-2.0 */
/* Lists and loads the tensors of a checkpoint whatever their layout is: a quantized matrix counts
 * as one tensor. */
#ifndef EY_STORED_TENSORS_H
#define EY_STORED_TENSORS_H

#include "convert/convert_model.h"

struct stored_tensor {
    char name[SOURCE_MAX_NAME];     /* the model's name for it */
    const struct tensor_view *view; /* of the tensor, or of a quantized matrix's values */
    int64_t shape[EY_MAX_DIMS];
    int n_dims;
    bool is_matrix; /* a matrix of a linear layer, the embedding or the LM head */
};

struct stored_tensors {
    struct stored_tensor *tensor; /* [n] */
    size_t n;
};

/* Lists the tensors, sorted by name. Fails if a quantized tensor belongs to no known matrix. */
bool stored_tensors_list(struct stored_tensors *out, const struct convert_source *source,
                         ey_err *e);
void stored_tensors_free(struct stored_tensors *tensors);

/* A tensor that is mapped or in memory. Its rows have the model's order, and quantized values are
 * stored row by row. */
struct loaded_tensor {
    struct tensor w;
    struct arena arena;
    void *memory;
};

bool stored_tensor_load(struct loaded_tensor *out, const struct convert_source *source,
                        const struct stored_tensor *tensor, ey_err *e);
void loaded_tensor_free(struct loaded_tensor *loaded);

#endif
