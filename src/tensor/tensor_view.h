/* SPDX-License-Identifier: Apache-2.0 */
/* A checked tensor of a file, read in place. */
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
    const uint8_t *data; /* in the mapped file; any alignment */
    size_t size;         /* bytes */
    int64_t paired_rows; /* rows of a head if the file interleaves its halves (the head's rows 2i
                            and 2i + 1 are the model's rows i and i + paired_rows / 2), else 0 */
};

#endif
