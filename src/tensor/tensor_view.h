/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor of a file: checked, and read in place. */
#ifndef EY_TENSOR_TENSOR_VIEW_H
#define EY_TENSOR_TENSOR_VIEW_H

#include "base/limits.h"
#include "tensor/tensor.h"

struct tensor_view {
    const char *name; /* as in the file; lives as long as the checkpoint */
    const char *file; /* path of its file, for errors */
    enum dtype dtype;
    int n_dims;
    int64_t shape[EY_MAX_DIMS];
    const uint8_t *data; /* in the map; any alignment */
    size_t size;         /* bytes */
    int64_t paired_rows; /* of a head, if its rows lie in pairs: 2i and 2i + 1 are rows i and
                            i + paired_rows / 2 of the model; 0: all lie as they are */
};

#endif
